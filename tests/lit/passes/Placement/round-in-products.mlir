// RUN: ztc-opt %s --ztc-round-in-products --split-input-file | FileCheck %s

// Every micro-step is rounded: products write the rounded bucket, what follows them passes through a slot of its own.
// CHECK-LABEL: module @always
// CHECK-NOT:     @b.local_gradient
// CHECK:         plan.slot @b.wire_gradient.unrounded gradients constant 64 x f32 {element_bytes = 4 : i64, layer = 1 : i64
// CHECK:         plan.gemm "second" [{{.*}}#plan.operand<write @b.wire_gradient, 4096, 2048>{{.*}} type_c = bf16}
// CHECK-NEXT:    plan.gemm "first" [{{.*}}#plan.operand<write @b.wire_gradient, 0, 4096>{{.*}} type_c = bf16}
// CHECK-NEXT:    plan.launch "norm" [#plan.operand<write @b.wire_gradient.unrounded, 0, 256>]
// CHECK-NEXT:    plan.narrow "round" [#plan.operand<read @b.wire_gradient.unrounded, 0, 256>, #plan.operand<write @b.wire_gradient, 6144, 128>] {from = f32, to = bf16}
module @always {
  plan.slot @x activations constant 4096 x bf16 {element_bytes = 2 : i64}
  plan.slot @b.local_gradient gradients full 3136 x f32 {element_bytes = 4 : i64, layer = 1 : i64}
  plan.slot @b.wire_gradient gradients full 3136 x bf16 {element_bytes = 2 : i64, layer = 1 : i64}
  plan.program @microstep {
    plan.gemm "second" [#plan.operand<read @x, 0, 0>, #plan.operand<read @x, 0, 0>, #plan.operand<write @b.local_gradient, 8192, 4096>, #plan.operand<write @x, 0, 0>] {k = 32 : i64, lda = 16 : i64, ldb = 64 : i64, ldc = 64 : i64, m = 16 : i64, n = 64 : i64, transpose_a, type_a = bf16, type_c = f32}
    plan.gemm "first" [#plan.operand<read @x, 0, 0>, #plan.operand<read @x, 0, 0>, #plan.operand<write @b.local_gradient, 0, 8192>, #plan.operand<write @x, 0, 0>] {k = 32 : i64, lda = 32 : i64, ldb = 64 : i64, ldc = 64 : i64, m = 32 : i64, n = 64 : i64, transpose_a, type_a = bf16, type_c = f32}
    plan.launch "norm" [#plan.operand<write @b.local_gradient, 12288, 256>]
    plan.narrow "round" [#plan.operand<read @b.local_gradient, 0, 0>, #plan.operand<write @b.wire_gradient, 0, 0>] {from = f32, to = bf16}
  }
}

// -----

// The last micro-step is rounded: what several add up stays as it is, what a single one does stands beside it.
// CHECK-LABEL: module @last
// CHECK:         plan.slot @b.accumulated_gradient
// CHECK:         plan.gemm "w" [{{.*}}#plan.operand<read_write @b.accumulated_gradient, 0, 8192>{{.*}} {accumulate = #plan.accumulate<add_unless_first>, {{.*}}only_if_accumulating, {{.*}}type_c = f32}
// CHECK-NEXT:    plan.gemm "w, single" [{{.*}}#plan.operand<write @b.gradient, 0, 4096>{{.*}}type_c = bf16, unless_accumulating}
// CHECK-NEXT:    plan.launch "norm" [#plan.operand<read_write @b.accumulated_gradient, 8192, 256>] {accumulate = #plan.accumulate<add_unless_first>, only_if_accumulating}
// CHECK-NEXT:    plan.launch "norm, single" [#plan.operand<write @b.gradient.unrounded, 0, 256>] {unless_accumulating}
// CHECK-NEXT:    plan.narrow "round" [#plan.operand<read @b.accumulated_gradient, 0, 0>, #plan.operand<write @b.gradient, 0, 0>] {from = f32, only_if_accumulating, only_last, to = bf16}
// CHECK-NEXT:    plan.narrow "round, single" [#plan.operand<read @b.gradient.unrounded, 0, 256>, #plan.operand<write @b.gradient, 4096, 128>] {from = f32, only_last, to = bf16, unless_accumulating}
module @last {
  plan.slot @x activations constant 4096 x bf16 {element_bytes = 2 : i64}
  plan.slot @b.accumulated_gradient gradients full 2112 x f32 {accumulator, element_bytes = 4 : i64}
  plan.slot @b.gradient gradients full 2112 x bf16 {element_bytes = 2 : i64, same_as_if_accumulating = @b.accumulated_gradient}
  plan.program @microstep {
    plan.gemm "w" [#plan.operand<read @x, 0, 0>, #plan.operand<read @x, 0, 0>, #plan.operand<read_write @b.accumulated_gradient, 0, 8192>, #plan.operand<write @x, 0, 0>] {accumulate = #plan.accumulate<add_unless_first>, k = 32 : i64, lda = 32 : i64, ldb = 64 : i64, ldc = 64 : i64, m = 32 : i64, n = 64 : i64, transpose_a, type_a = bf16, type_c = f32}
    plan.launch "norm" [#plan.operand<read_write @b.accumulated_gradient, 8192, 256>] {accumulate = #plan.accumulate<add_unless_first>}
    plan.narrow "round" [#plan.operand<read @b.accumulated_gradient, 0, 0>, #plan.operand<write @b.gradient, 0, 0>] {from = f32, only_last, to = bf16}
  }
}

// -----

// What two steps add up, as of a tied table, is rounded when both are there.
// CHECK-LABEL: module @tied
// CHECK:         plan.gemm "head" [{{.*}}write @t.local_gradient, 0, 8192>{{.*}}type_c = f32}
// CHECK-NEXT:    plan.launch "table" [#plan.operand<read_write @t.local_gradient, 0, 8192>] {accumulate = #plan.accumulate<add>}
// CHECK-NEXT:    plan.narrow "round" [#plan.operand<read @t.local_gradient, 0, 0>, #plan.operand<write @t.wire_gradient, 0, 0>]
module @tied {
  plan.slot @x activations constant 4096 x bf16 {element_bytes = 2 : i64}
  plan.slot @t.local_gradient gradients full 2048 x f32 {element_bytes = 4 : i64}
  plan.slot @t.wire_gradient gradients full 2048 x bf16 {element_bytes = 2 : i64}
  plan.program @microstep {
    plan.gemm "head" [#plan.operand<read @x, 0, 0>, #plan.operand<read @x, 0, 0>, #plan.operand<write @t.local_gradient, 0, 8192>, #plan.operand<write @x, 0, 0>] {k = 32 : i64, lda = 32 : i64, ldb = 64 : i64, ldc = 64 : i64, m = 32 : i64, n = 64 : i64, transpose_a, type_a = bf16, type_c = f32}
    plan.launch "table" [#plan.operand<read_write @t.local_gradient, 0, 8192>] {accumulate = #plan.accumulate<add>}
    plan.narrow "round" [#plan.operand<read @t.local_gradient, 0, 0>, #plan.operand<write @t.wire_gradient, 0, 0>] {from = f32, to = bf16}
  }
}
