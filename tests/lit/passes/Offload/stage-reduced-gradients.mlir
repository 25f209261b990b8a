// Below stage 2 ranks reduce a gradient where it adds up. It is on the device until the computation has waited for that, and leaves then; at stage 0 what an update
// gathers comes before the gather begins, and does not leave again. In bf16 the sum and what it is rounded to move each for itself.
// RUN: ztc-opt %s --ztc-stage-slots=choice=gradients=0+2 --ztc-name-moved-slots | FileCheck %s

// CHECK-DAG: plan.slot @b.gradient.below gradients full 64 x f32 {{.*}}space = #plan.space<disk>
// CHECK-DAG: plan.slot @n.gradient.below gradients full 64 x bf16 {{.*}}space = #plan.space<disk>
// CHECK-DAG: plan.slot @n.sum.below gradients full 64 x f32 {{.*}}space = #plan.space<disk>
plan.slot @b.parameter parameters full 64 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @b.gradient gradients full 64 x f32 {accumulator, element_bytes = 4 : i64}
plan.slot @n.sum gradients full 64 x f32 {accumulator, element_bytes = 4 : i64}
plan.slot @n.gradient gradients full 64 x bf16 {element_bytes = 2 : i64, same_as_if_accumulating = @n.sum}
plan.slot @receive communication full 64 x f32 {element_bytes = 4 : i64}
plan.slot @sums workspace constant 1 x f32 {element_bytes = 4 : i64}
plan.bucket @b {decayed = 0 : i64, elements = 64 : i64, gradient_slot = @b.gradient, parameter_slot = @b.parameter, trainable}
plan.bucket @n {decayed = 0 : i64, elements = 64 : i64, gradient_slot = @n.gradient, parameter_slot = @b.parameter, trainable}

// CHECK: plan.program @microstep
plan.program @microstep {
  // CHECK: plan.move "b.gradient in" [#plan.operand<read @b.gradient.below, 0, 0>, #plan.operand<write @b.gradient, 0, 0>]
  // CHECK: plan.launch "b backward"
  plan.launch "b backward" [#plan.operand<read_write @b.gradient, 0, 0>] {layer = 1 : i64}
  plan.record "reduce b ready" [] {event = 0 : i64, only_last}
  plan.wait "reduce b begin" [] {event = 0 : i64, only_last, stream = 1 : i64}
  // CHECK: plan.collective "reduce b"
  // CHECK-NEXT: plan.record "reduce b end"
  plan.collective "reduce b" [#plan.operand<read_write @b.gradient, 0, 0>, #plan.operand<write @receive, 0, 0>] {axis = "data", bucket = @b, kind = #plan.collective<reduce_scatter>, launch_order = 0 : i64, only_last, stream = 1 : i64, type = f32}
  plan.record "reduce b end" [] {event = 1 : i64, only_last, stream = 1 : i64}
  // CHECK: plan.launch "n backward"
  plan.launch "n backward" [#plan.operand<read_write @n.sum, 0, 0>] {layer = 0 : i64}
  // CHECK: plan.narrow "n round"
  // CHECK: plan.move "n.sum out"
  plan.narrow "n round" [#plan.operand<read @n.sum, 0, 0>, #plan.operand<write @n.gradient, 0, 0>] {from = f32, layer = 0 : i64, only_last, to = bf16}
  // CHECK: plan.wait "reduce b done"
  // CHECK-NEXT: plan.record "b.gradient out free"
  // CHECK-NEXT: plan.wait "b.gradient out begin"
  // CHECK-NEXT: plan.move "b.gradient out" [#plan.operand<read @b.gradient, 0, 0>, #plan.operand<write @b.gradient.below, 0, 0>]
  plan.wait "reduce b done" [#plan.operand<read_write @b.gradient, 0, 0>, #plan.operand<write @receive, 0, 0>] {event = 1 : i64, only_last}
  plan.record "reduce n ready" [] {event = 2 : i64, only_last}
  plan.wait "reduce n begin" [] {event = 2 : i64, only_last, stream = 1 : i64}
  plan.collective "reduce n" [#plan.operand<read_write @n.gradient, 0, 0>, #plan.operand<write @receive, 0, 0>] {axis = "data", bucket = @n, kind = #plan.collective<reduce_scatter>, launch_order = 1 : i64, only_last, stream = 1 : i64, type = bf16}
  plan.record "reduce n end" [] {event = 3 : i64, only_last, stream = 1 : i64}
  // CHECK: plan.wait "reduce n done"
  // CHECK-NEXT: plan.record "n.gradient out free"
  // CHECK-NEXT: plan.wait "n.gradient out begin"
  // CHECK-NEXT: plan.move "n.gradient out"
  plan.wait "reduce n done" [#plan.operand<read_write @n.gradient, 0, 0>, #plan.operand<write @receive, 0, 0>] {event = 3 : i64, only_last}
}
// CHECK: plan.program @update
plan.program @update {
  // CHECK: plan.move "b.gradient again in"
  // CHECK: plan.launch "norm" [#plan.operand<read @b.gradient.again, 0, 0, own_shard>
  plan.launch "norm" [#plan.operand<read @b.gradient, 0, 0, own_shard>, #plan.operand<write @sums, 0, 0>] {bucket = @b}
  // CHECK: plan.move "b.gradient again2 in"
  // CHECK: plan.launch "scalars"
  plan.launch "scalars" [#plan.operand<read_write @sums, 0, 0>]
  // CHECK: plan.wait "b.gradient again2 in done"
  // CHECK-NEXT: plan.record "gather b ready"
  plan.record "gather b ready" [] {event = 4 : i64}
  plan.wait "gather b begin" [] {event = 4 : i64, stream = 1 : i64}
  // CHECK: plan.collective "gather b" [#plan.operand<read @b.gradient.again2, 0, 0, own_shard>, #plan.operand<write @b.gradient.again2, 0, 0>]
  plan.collective "gather b" [#plan.operand<read @b.gradient, 0, 0, own_shard>, #plan.operand<write @b.gradient, 0, 0>] {axis = "data", bucket = @b, kind = #plan.collective<all_gather>, launch_order = 2 : i64, stream = 1 : i64, type = f32}
  plan.record "gather b end" [] {event = 5 : i64, stream = 1 : i64}
  // CHECK: plan.wait "gather b done" [{{.*}}@b.gradient.again2
  plan.wait "gather b done" [#plan.operand<write @b.gradient, 0, 0>] {event = 5 : i64}
  // CHECK: plan.launch "adamw" [#plan.operand<read @b.gradient.again2, 0, 0>]
  // CHECK-NOT: plan.move "b.gradient again2 out"
  plan.launch "adamw" [#plan.operand<read @b.gradient, 0, 0>] {bucket = @b}
  plan.launch "adamw n" [#plan.operand<read @n.gradient, 0, 0>] {bucket = @n}
}
