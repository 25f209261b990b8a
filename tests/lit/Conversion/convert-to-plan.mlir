// RUN: ztc-opt %s --ztc-convert-to-plan | FileCheck %s
// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-form-buckets --ztc-group-macro-ops --ztc-group-primitive-ops --ztc-order-steps --ztc-plan-kernels --ztc-assign-slots \
// RUN:   --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v3" --ztc-map-to-host --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels=targets=x86-64-v3 --ztc-convert-to-plan --ztc-verify-plan -mlir-print-debuginfo | FileCheck %s --check-prefix=LLAMA

// LLAMA:     plan.model "llama2" {batch = 2 : i64
// LLAMA:     plan.program @microstep
// LLAMA:       plan.gather
// LLAMA:       plan.launch "layer 0 input_layernorm rms_norm"
// LLAMA:       plan.gemm "layer 1 self_attn.q_proj matmul"
// LLAMA:       plan.linear_cross_entropy
// LLAMA:     plan.program @update
// LLAMA:     plan.program @eval
// LLAMA:     plan.program @generate
// LLAMA:     plan.program @transfer
// LLAMA-NOT: plan.copy

// CHECK:      plan.model "model" {batch = 0 : i64, {{.*}}parameters = 20 : i64
// CHECK:      plan.bucket @b {decayed = 16 : i64, elements = 20 : i64, parameter_slot = @b.parameter}
// CHECK-NEXT: plan.parameter "w" @b[0] {decayed, shape = array<i64: 4, 4>, type = f32}
// CHECK-NEXT: plan.parameter "n" @b[16] {shape = array<i64: 4>, type = f32}
dist.bucket @b {decayed = 16 : i64, elements = 20 : i64,
  parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 4, 4>}, {name = "n", offset = 16 : i64, shape = array<i64: 4>}]}
plan.slot @b.parameter parameters full 20 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @y activations constant 64 x f32 {element_bytes = 4 : i64}
plan.slot @z activations constant 32 x f32 {element_bytes = 4 : i64}

// CHECK:      plan.program @eval
// CHECK-NEXT:   plan.gemm "matmul" [#plan.operand<read @y, 64, 64>, #plan.operand<read @b.parameter, 0, 64>, #plan.operand<read_write @y, 128, 64>]
// CHECK-SAME:     accumulate = #plan.accumulate<add>
// CHECK-SAME:     m = 4 : i64
// CHECK-SAME:     transpose_b
// A pack's gap is filled with zeros.
// CHECK-NEXT:   plan.fill "gap" [#plan.operand<write @z, 64, 64>]
func.func @eval(%p: tensor<20xf32> {graph.bucket = @b, graph.role = #graph.role<parameter_bucket>, plan.place = #plan.place<@b.parameter, 0>},
                %x: tensor<4x4xf32> {plan.place = #plan.place<@y, 64>}) attributes {graph.entry = #graph.entry<eval>} {
  %w = dist.view %p[0] {plan.places = [#plan.place<@b.parameter, 0>]} : tensor<20xf32> -> tensor<4x4xf32>
  %y = graph.matmul %x, %w {transpose_b, plan.accumulate = [#plan.accumulate<add>], plan.places = [#plan.place<@y, 128>]}
    : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %z = dist.pack %y at [0] {plan.places = [#plan.place<@z, 0>]} : tensor<4x4xf32> -> tensor<32xf32>
  return
}
