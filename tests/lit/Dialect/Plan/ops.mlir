// RUN: ztc-opt %s | ztc-opt | FileCheck %s

// CHECK: plan.slot @a activations constant 16 x f32 {element_bytes = 4 : i64, layer = 3 : i64, reason = "why"}
plan.slot @a activations constant 16 x f32 {element_bytes = 4 : i64, layer = 3 : i64, reason = "why"}
// CHECK: plan.slot @t workspace per_thread 16 x f32
plan.slot @t workspace per_thread 16 x f32 {element_bytes = 4 : i64}
// CHECK: plan.slot @u workspace per_thread 16 x f32 {element_bytes = 4 : i64, gpu_elements = 8 : i64}
plan.slot @u workspace per_thread 16 x f32 {element_bytes = 4 : i64, gpu_elements = 8 : i64}
// CHECK: plan.slot @g gathered full 16 x f32 {element_bytes = 4 : i64, only_if_several_ranks, same_as_at_one_rank = @a}
plan.slot @g gathered full 16 x f32 {element_bytes = 4 : i64, only_if_several_ranks, same_as_at_one_rank = @a}
// CHECK: plan.slot @wire gradients full 16 x bf16 {element_bytes = 2 : i64, same_as_if_accumulating = @g}
plan.slot @wire gradients full 16 x bf16 {element_bytes = 2 : i64, same_as_if_accumulating = @g}
// CHECK: plan.constant @a {data = dense<1.000000e+00> : tensor<16xf32>}
plan.constant @a {data = dense<1.0> : tensor<16xf32>}
// CHECK: plan.bindings {loss = @a}
plan.bindings {loss = @a}
// CHECK: plan.scaled_matrix ["q.weight.input", "k.weight.input"]
plan.scaled_matrix ["q.weight.input", "k.weight.input"]
// CHECK: plan.program @microstep
plan.program @microstep {
  // CHECK: plan.gemm "layer 3 product" [#plan.operand<read @a, 0, 64>, #plan.operand<read @a, 0, 64>, #plan.operand<read_write @a, 0, 0>]
  // CHECK-SAME: accumulate = #plan.accumulate<add_unless_first>
  plan.gemm "layer 3 product" [#plan.operand<read @a, 0, 64>, #plan.operand<read @a, 0, 64>, #plan.operand<read_write @a, 0, 0>] {
    accumulate = #plan.accumulate<add_unless_first>, k = 4 : i64, lda = 4 : i64, ldb = 4 : i64, ldc = 4 : i64, m = 4 : i64, n = 4 : i64, transpose_a, type_a = f32, type_c = f32}
  // CHECK: plan.launch "flat" [#plan.operand<read @a, 0, 0, own_shard>] {bucket = @b, flat_block = 4096 : i64, whole}
  plan.launch "flat" [#plan.operand<read @a, 0, 0, own_shard>] {bucket = @b, flat_block = 4096 : i64, whole}
  // CHECK: plan.record "ready" [] {event = 3 : i64}
  plan.record "ready" [] {event = 3 : i64}
  // CHECK: plan.wait "begin" [] {event = 3 : i64, only_last, stream = 1 : i64}
  plan.wait "begin" [] {event = 3 : i64, only_last, stream = 1 : i64}
  // CHECK: plan.collective "sum" [#plan.operand<read_write @a, 0, 0>] {axis = "data", bucket = @b, kind = #plan.collective<reduce_scatter>, launch_order = 7 : i64, only_last, type = f32}
  plan.collective "sum" [#plan.operand<read_write @a, 0, 0>] {axis = "data", bucket = @b, kind = #plan.collective<reduce_scatter>, launch_order = 7 : i64, only_last, type = f32}
  // CHECK: plan.narrow "round" [#plan.operand<read @g, 0, 0>, #plan.operand<write @wire, 0, 0>] {from = f32, only_last, to = bf16}
  plan.narrow "round" [#plan.operand<read @g, 0, 0>, #plan.operand<write @wire, 0, 0>] {from = f32, only_last, to = bf16}
  // CHECK: plan.fill "zero" [#plan.operand<write @a, 16, 32>] {value = 0 : i64}
  plan.fill "zero" [#plan.operand<write @a, 16, 32>] {value = 0 : i64}
}
