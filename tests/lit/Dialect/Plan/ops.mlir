// RUN: ztc-opt %s | ztc-opt | FileCheck %s

// CHECK: plan.slot @a activations constant 16 x f32 {element_bytes = 4 : i64, layer = 3 : i64, reason = "why"}
plan.slot @a activations constant 16 x f32 {element_bytes = 4 : i64, layer = 3 : i64, reason = "why"}
// CHECK: plan.slot @t workspace per_thread 16 x f32
plan.slot @t workspace per_thread 16 x f32 {element_bytes = 4 : i64}
// CHECK: plan.constant @a {data = dense<1.000000e+00> : tensor<16xf32>}
plan.constant @a {data = dense<1.0> : tensor<16xf32>}
// CHECK: plan.bindings {loss = @a}
plan.bindings {loss = @a}
// CHECK: plan.program @microstep
plan.program @microstep {
  // CHECK: plan.gemm "layer 3 product" [#plan.operand<read @a, 0, 64>, #plan.operand<read @a, 0, 64>, #plan.operand<read_write @a, 0, 0>]
  // CHECK-SAME: accumulate = #plan.accumulate<add_unless_first>
  plan.gemm "layer 3 product" [#plan.operand<read @a, 0, 64>, #plan.operand<read @a, 0, 64>, #plan.operand<read_write @a, 0, 0>] {
    accumulate = #plan.accumulate<add_unless_first>, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64, m = 4 : i64, n = 4 : i64, transpose_a, type_a = f32, type_c = f32}
  // CHECK: plan.fill "zero" [#plan.operand<write @a, 16, 32>] {value = 0 : i64}
  plan.fill "zero" [#plan.operand<write @a, 16, 32>] {value = 0 : i64}
}
