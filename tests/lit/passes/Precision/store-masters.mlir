// RUN: ztc-opt %s --ztc-build-update --ztc-assign-storage="precision=bf16 keep=n" --ztc-store-masters --ztc-verify-precision | FileCheck %s
// RUN: ztc-opt %s --ztc-build-update --ztc-assign-storage=precision=fp16 --ztc-store-masters=state=bf16 --ztc-verify-precision | FileCheck %s --check-prefix=FP16
// RUN: ztc-opt %s --ztc-build-update --ztc-assign-storage=precision=fp32 --ztc-store-masters=state=bf16 --ztc-verify-precision | FileCheck %s --check-prefix=FP32
// RUN: not ztc-opt %s --ztc-build-update --ztc-store-masters 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not ztc-opt %s --ztc-build-update --ztc-assign-storage --ztc-store-masters=state=fp8 2>&1 | FileCheck %s --check-prefix=STATE
// NONE: has no graph.precision: no precision was chosen
// STATE: there is no optimizer state fp8, only fp32 and bf16

// The kept parameter has no master; its gradient comes in f32.
// CHECK-LABEL: func.func @update(
// CHECK-SAME:    tensor<4x8xbf16> {graph.name = "w", graph.role = "parameter"}, {{[^:]*}}: tensor<8xf32> {graph.name = "n"
// CHECK-SAME:    tensor<4x8xbf16> {graph.name = "w", graph.role = "gradient"}, {{[^:]*}}: tensor<8xf32> {graph.name = "n", graph.role = "gradient"}
// CHECK-SAME:    tensor<4x8xf32> {graph.name = "w", graph.role = "state", graph.state = "exp_avg"}
// CHECK-SAME:    %[[M:[^:]*]]: tensor<4x8xi16> {graph.name = "w", graph.role = "master"})
// CHECK-SAME:    tensor<4x8xi16> {graph.name = "w", graph.result = "master"}, tensor<f32> {graph.result = "gradient_norm"}
// CHECK:         %[[R:.*]] = graph.reshape %[[M]]
// CHECK:         graph.optimizer_step "adamw" {{.*}}, %[[R]]) {{.*}} decayed 32 : (tensor<32xbf16>, tensor<32xbf16>, tensor<32xf32>, tensor<32xf32>, tensor<32xi16>,
// CHECK:         graph.optimizer_step "adamw" {{.*}} decayed 0 : (tensor<8xf32>, tensor<8xf32>,

// The norm and the update divide by the loss scale.
// FP16-LABEL:  func.func @update(
// FP16:          %[[NORM:.*]] = graph.sqrt
// FP16:          graph.slice %{{.*}}, [12]
// FP16:          %[[UNSCALED:.*]] = graph.mul %[[NORM]], %[[INVERSE:.*]] : tensor<f32>
// FP16:          %[[SHARE:.*]] = graph.mul %[[UNSCALED]],
// FP16:          graph.compare "lt", %[[SHARE]]
// FP16:          %[[CLIP:.*]] = graph.minimum
// FP16:          %[[FACTOR:.*]] = graph.mul %[[CLIP]], %[[INVERSE]]
// FP16:          graph.optimizer_step "adamw" {{.*}}, %[[FACTOR]], {{.*}} decayed 32 : (tensor<32xf16>, tensor<32xf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xf32>,

// FP32-LABEL:  func.func @update(
// FP32:          graph.optimizer_step "adamw" {{.*}} decayed 32 : (tensor<32xf32>, tensor<32xf32>, tensor<32xbf16>, tensor<32xbf16>,
func.func @microstep(%step: tensor<16xf32> {graph.role = "step"}, %w: tensor<4x8xf32> {graph.role = "parameter", graph.name = "w"},
                     %n: tensor<8xf32> {graph.role = "parameter", graph.name = "n", graph.no_decay}) {
  return
}
