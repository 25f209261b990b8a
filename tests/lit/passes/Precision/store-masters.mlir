// RUN: ztc-opt %s --ztc-build-update --ztc-assign-storage="precision=bf16 keep=n" --ztc-store-masters --ztc-verify-precision | FileCheck %s
// RUN: ztc-opt %s --ztc-build-update --ztc-assign-storage=precision=fp16 --ztc-store-masters=state=bf16 --ztc-verify-precision | FileCheck %s --check-prefix=FP16
// RUN: ztc-opt %s --ztc-build-update --ztc-assign-storage=precision=fp32 --ztc-store-masters=state=bf16 --ztc-verify-precision | FileCheck %s --check-prefix=FP32
// RUN: ztc-opt %s --ztc-build-update --ztc-assign-storage="precision=bf16 keep=n" --ztc-store-masters=masters=none --ztc-verify-precision | FileCheck %s --check-prefix=WITHOUT
// RUN: ztc-opt %s --ztc-build-update --ztc-assign-storage=precision=bf16 --ztc-store-masters="state=int8 block-from=32" --ztc-verify-precision | FileCheck %s --check-prefix=BLOCKS
// RUN: not ztc-opt %s --ztc-build-update --ztc-assign-storage=precision=fp16 --ztc-store-masters=masters=none 2>&1 | FileCheck %s --check-prefix=ONLY
// RUN: not ztc-opt %s --ztc-build-update --ztc-assign-storage --ztc-store-masters=masters=fp64 2>&1 | FileCheck %s --check-prefix=MASTERS
// RUN: not ztc-opt %s --ztc-build-update --ztc-store-masters 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not ztc-opt %s --ztc-build-update --ztc-assign-storage --ztc-store-masters=state=fp8 2>&1 | FileCheck %s --check-prefix=STATE
// NONE: has no graph.precision: no precision was chosen
// STATE: for the --state option: Cannot find option named 'fp8'!
// ONLY: weights can be without masters in precision bf16 and fp8 only, not in fp16
// MASTERS: for the --masters option: Cannot find option named 'fp64'!

// The kept parameter has no master; its gradient comes in f32.
// CHECK-LABEL: func.func @update(
// CHECK-SAME:    tensor<4x8xbf16> {graph.name = "w", graph.role = #graph.role<parameter>}, {{[^:]*}}: tensor<8xf32> {graph.name = "n"
// CHECK-SAME:    tensor<4x8xbf16> {graph.name = "w", graph.role = #graph.role<gradient>}, {{[^:]*}}: tensor<8xf32> {graph.name = "n", graph.role = #graph.role<gradient>}
// CHECK-SAME:    tensor<4x8xf32> {graph.name = "w", graph.role = #graph.role<state>, graph.state = "exp_avg"}
// CHECK-SAME:    %[[M:[^:]*]]: tensor<4x8xi16> {graph.name = "w", graph.role = #graph.role<master>})
// CHECK-SAME:    tensor<4x8xi16> {graph.name = "w", graph.result = #graph.result<master>}, tensor<f32> {graph.result = #graph.result<gradient_norm>}
// CHECK:         %[[R:.*]] = graph.reshape %[[M]]
// CHECK:         graph.optimizer_step "adamw" {{.*}}, %[[R]]) {{.*}} decayed 32 : (tensor<32xbf16>, tensor<32xbf16>, tensor<32xf32>, tensor<32xf32>, tensor<32xi16>,
// CHECK:         graph.optimizer_step "adamw" {{.*}} decayed 0 : (tensor<8xf32>, tensor<8xf32>,

// The norm and the update divide by the loss scale.
// FP16-LABEL:  func.func @update(
// FP16:          %[[NORM:.*]] = graph.sqrt
// FP16:          graph.slice %{{.*}}, [12]
// FP16:          %[[UNSCALED:.*]] = graph.mul %[[NORM]], %[[INVERSE:.*]] : tensor<f32>
// FP16:          %[[SHARE:.*]] = graph.mul %[[UNSCALED]],
// FP16:          graph.compare lt, %[[SHARE]]
// FP16:          %[[CLIP:.*]] = graph.minimum
// FP16:          %[[FACTOR:.*]] = graph.mul %[[CLIP]], %[[INVERSE]]
// FP16:          graph.optimizer_step "adamw" {{.*}}, %[[FACTOR]], {{.*}} decayed 32 numbered %{{.*}} from [0] : (tensor<32xf16>, tensor<32xf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xf32>,

// FP32-LABEL:  func.func @update(
// FP32:          graph.optimizer_step "adamw" {{.*}} decayed 32 numbered %{{.*}} from [0] : (tensor<32xf32>, tensor<32xf32>, tensor<32xbf16>, tensor<32xbf16>,

// Without masters the elements of what is rounded have numbers, by the tensor's name; what is kept in f32 needs none.
// WITHOUT-LABEL: func.func @update(
// WITHOUT-NOT:     "master"
// WITHOUT:         %[[N:.*]] = graph.constant dense<{{.*}}> : tensor<1xi64>
// WITHOUT:         graph.optimizer_step "adamw" {{.*}} decayed 32 numbered %[[N]] from [0] : (tensor<32xbf16>, tensor<32xbf16>, tensor<32xf32>, tensor<32xf32>,
// WITHOUT:         graph.optimizer_step "adamw" {{.*}} decayed 0 : (tensor<8xf32>, tensor<8xf32>,

// States in 8 bits are flat; a tensor with fewer elements keeps fp32.
// BLOCKS-LABEL: func.func @microstep(
// BLOCKS-SAME:     {graph.block_states, graph.name = "w"
// BLOCKS-LABEL: func.func @update(
// BLOCKS-SAME:     tensor<32x!graph.block8<signed>> {graph.name = "w", graph.role = #graph.role<state>, graph.state = "exp_avg"}
// BLOCKS-SAME:     tensor<8xf32> {graph.name = "n", graph.role = #graph.role<state>, graph.state = "exp_avg"}
// BLOCKS-SAME:     tensor<32x!graph.block8<unsigned>> {graph.name = "w", graph.role = #graph.role<state>, graph.state = "exp_avg_sq"}
// BLOCKS:          graph.optimizer_step "adamw" {{.*}} decayed 32 : (tensor<32xbf16>, tensor<32xbf16>, tensor<32x!graph.block8<signed>>, tensor<32x!graph.block8<unsigned>>, tensor<32xi16>,
func.func @microstep(%step: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                     %n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "n", graph.no_decay}) attributes {graph.entry = #graph.entry<microstep>} {
  return
}
