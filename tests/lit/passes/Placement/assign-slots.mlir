// RUN: ztc-opt %s --ztc-assign-slots --ztc-verify-assign | FileCheck %s
// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-form-buckets --ztc-group-macro-ops --ztc-group-primitive-ops --ztc-order-steps --ztc-plan-kernels --ztc-assign-slots \
// RUN:   --ztc-verify-assign | FileCheck %s --check-prefix=LLAMA
// RUN: ztc-opt %inputs/llama2-tied.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-form-buckets --ztc-group-macro-ops --ztc-group-primitive-ops --ztc-order-steps --ztc-plan-kernels --ztc-assign-slots \
// RUN:   --ztc-verify-assign | FileCheck %s --check-prefix=LLAMA

// A Llama, tied or not, needs no copy.
// LLAMA:     plan.slot
// LLAMA-NOT: dist.copy
// LLAMA-NOT: fusion "copy"

// CHECK:       plan.slot @b.parameter parameters full 36 x f32
// CHECK:       plan.slot @b.gradient gradients full 36 x f32 {accumulator
// CHECK:       plan.bindings {
// CHECK-SAME:    loss = @loss
// CHECK-SAME:    staging = @staging
dist.bucket @b {decayed = 32 : i64, elements = 36 : i64, trainable,
  parameters = [{name = "e", offset = 0 : i64, shape = array<i64: 8, 4>}, {name = "n", offset = 32 : i64, shape = array<i64: 4>}]}

// Both parts of a tied gradient are produced at its place, the first one computed writes.
// CHECK-LABEL: func.func @microstep
// The other part is an argument's piece: only a copy brings it there.
// CHECK:         dist.copy {{.*}}plan.places = [#plan.place<@b.gradient, 128>]
// CHECK:         graph.linear_cross_entropy
// CHECK-SAME:      plan.accumulate = [#plan.accumulate<add_unless_first>, #plan.accumulate<overwrite>, #plan.accumulate<add_unless_first>], plan.chunk = 8 : i64
// CHECK-SAME:      plan.places = [#plan.place<@loss, 0>, #plan.place<@microstep.linear_cross_entropy, 0>, #plan.place<@b.gradient, 0>], plan.scratch =
// CHECK:         graph.accumulate {{.*}}plan.places = [#plan.place<@b.gradient, 0>]
// CHECK:         graph.embedding_grad
// CHECK-SAME:      plan.accumulate = [#plan.accumulate<add>], plan.places = [#plan.place<@b.gradient, 0>]
// CHECK:         dist.pack {{.*}}plan.places = [#plan.place<@b.gradient, 0>]
func.func @microstep(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<8xi32> {graph.role = #graph.role<targets>}, %step: tensor<16xf32> {graph.role = #graph.role<step>},
    %p: tensor<36xf32> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}, %g: tensor<36xf32> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b})
    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<36xf32> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  %e = dist.view %p[0] : tensor<36xf32> -> tensor<8x4xf32>
  %n = dist.view %p[32] : tensor<36xf32> -> tensor<4xf32>
  %x = graph.embedding %e, %tokens : tensor<8x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
  %s = graph.slice %step, [0] : tensor<16xf32> -> tensor<1xf32>
  %scale = graph.reshape %s : tensor<1xf32> -> tensor<f32>
  %ge = dist.view %g[0] : tensor<36xf32> -> tensor<8x4xf32>
  %loss, %dx, %dh = graph.linear_cross_entropy %x, %e, %targets scale %scale : tensor<f32> : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xi32> -> tensor<f32>, tensor<8x4xf32> and tensor<8x4xf32>
  %a = graph.accumulate %ge, %dh {first_writes} : tensor<8x4xf32>
  %rows = graph.embedding_grad %tokens, %dx : tensor<8xi32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %b = graph.accumulate %a, %rows : tensor<8x4xf32>
  %out = dist.pack %b, %n at [0, 32] : tensor<8x4xf32>, tensor<4xf32> -> tensor<36xf32>
  return %loss, %out : tensor<f32>, tensor<36xf32>
}
