// A gradient is rounded in the last micro-step, and a product of narrow matrices has scratch.
// RUN: ztc-opt %s --ztc-convert-to-plan | FileCheck %s

dist.bucket @b {decayed = 16 : i64, elements = 16 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 4, 4>}], trainable}
dist.mesh @mesh ["data"]
// CHECK:      plan.bucket @b {decayed = 16 : i64, elements = 16 : i64, gradient_slot = @b.gradient, master_slot = @b.master, parameter_slot = @b.parameter, trainable}
// CHECK-NEXT: plan.parameter "w" @b[0] {decayed, shape = array<i64: 4, 4>, trainable, type = bf16}
plan.slot @b.parameter parameters full 16 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @b.master optimizer full 16 x i16 {element_bytes = 2 : i64, persistent}
plan.slot @b.accumulated_gradient gradients full 16 x f32 {accumulator, element_bytes = 4 : i64}
plan.slot @b.gradient gradients full 16 x bf16 {element_bytes = 2 : i64, same_as_if_accumulating = @b.accumulated_gradient}
plan.slot @x activations constant 16 x bf16 {element_bytes = 2 : i64}
plan.slot @panels workspace per_thread 64 x f32 {element_bytes = 4 : i64}
plan.slot @receive communication full 16 x bf16 {element_bytes = 2 : i64, only_if_several_ranks}

// CHECK:      plan.program @microstep
// CHECK-NEXT:   plan.gemm "matmul" [#plan.operand<read @x, 0, 32>, #plan.operand<read @b.parameter, 0, 32>, #plan.operand<write @b.accumulated_gradient, 0, 64>, #plan.operand<write @panels, 0, 0>]
// CHECK-SAME:     type_a = bf16, type_c = f32
// CHECK-NEXT:   plan.narrow "round" [#plan.operand<read @b.accumulated_gradient, 0, 0>, #plan.operand<write @b.gradient, 0, 0>] {from = f32, only_last
// CHECK-SAME:     to = bf16
// CHECK:        plan.collective "reduce_scatter b" [#plan.operand<read_write @b.gradient, 0, 0>, #plan.operand<write @receive, 0, 0>]
// CHECK-SAME:     type = bf16
func.func @microstep(%p: tensor<?xbf16, #dist.full<@b>> {graph.bucket = @b, graph.role = #graph.role<parameter_bucket>, plan.place = #plan.place<@b.parameter, 0>},
                     %x: tensor<4x4xbf16> {plan.place = #plan.place<@x, 0>}) attributes {graph.entry = #graph.entry<microstep>} {
  %w = dist.view %p[0] {plan.places = [#plan.place<@b.parameter, 0>]} : tensor<?xbf16, #dist.full<@b>> -> tensor<4x4xbf16>
  %y = graph.matmul %x, %w {plan.places = [#plan.place<@b.accumulated_gradient, 0>], plan.scratch = [#plan.place<@panels, 0>]}
    : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xf32>
  %g = dist.pack %y at [0] {plan.places = [#plan.place<@b.accumulated_gradient, 0>]} : tensor<4x4xf32> -> tensor<?xf32, #dist.full<@b>>
  %wire = graph.cast %g {plan.places = [#plan.place<@b.gradient, 0>]} : tensor<?xf32, #dist.full<@b>> -> tensor<?xbf16, #dist.full<@b>>
  %s = dist.reduce_scatter_start %wire axis "data" {only_last, order = 0 : i64, plan.places = [#plan.place<@b.gradient, 0, own_shard>], plan.scratch = [#plan.place<@receive, 0>]}
    : tensor<?xbf16, #dist.full<@b>> -> !dist.pending<tensor<?xbf16, #dist.shard<@b>>>
  %d = dist.reduce_scatter_done %s {plan.places = [#plan.place<@b.gradient, 0, own_shard>]} : !dist.pending<tensor<?xbf16, #dist.shard<@b>>>
  return
}
