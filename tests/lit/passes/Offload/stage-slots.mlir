// A gradient that lies below comes for each micro-step's addition, and for what the update makes of it. What a block keeps for its backward leaves behind its
// forward and comes back one block ahead. A gradient that ranks reduce leaves when the computation has waited for that; where nothing waits, it stays.
// RUN: ztc-opt %s --ztc-stage-slots=choice=gradients=1+0/activations=0+2 --ztc-name-moved-slots | FileCheck %s
// RUN: not ztc-opt %s --ztc-stage-slots=choice=gradient=1+0 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: choice 'gradient=1+0' is not of the form

// CHECK:      plan.slot @b.accumulated_gradient gradients shard 64 x f32 {element_bytes = 4 : i64}
// CHECK-NEXT: plan.slot @b.accumulated_gradient.below gradients shard 64 x f32 {element_bytes = 4 : i64, persistent, {{.*}}space = #plan.space<host>}
// CHECK-NEXT: plan.slot @b.gradient gradients shard 64 x bf16 {element_bytes = 2 : i64}
// CHECK-NEXT: plan.slot @b.gradient.again2 gradients shard 64 x bf16 {element_bytes = 2 : i64, reason = "it has come back
// CHECK-NEXT: plan.slot @b.gradient.again gradients
// CHECK-NEXT: plan.slot @b.gradient.below gradients shard 64 x bf16 {element_bytes = 2 : i64, persistent, {{.*}}space = #plan.space<host>}
// CHECK-NEXT: plan.slot @c.gradient gradients shard 64 x f32 {accumulator, element_bytes = 4 : i64}
// CHECK-NEXT: plan.slot @h0 activations
// CHECK-NEXT: plan.slot @h0.again activations
// CHECK-NEXT: plan.slot @h0.below activations {{.*}}space = #plan.space<disk>
// CHECK:      plan.bucket @b {{.*}}gradient_slot = @b.gradient.below
plan.slot @b.parameter parameters shard 64 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @b.accumulated_gradient gradients shard 64 x f32 {accumulator, element_bytes = 4 : i64}
plan.slot @b.gradient gradients shard 64 x bf16 {element_bytes = 2 : i64, same_as_if_accumulating = @b.accumulated_gradient}
plan.slot @c.gradient gradients shard 64 x f32 {accumulator, element_bytes = 4 : i64}
plan.slot @h0 activations constant 1024 x bf16 {element_bytes = 2 : i64, layer = 0 : i64}
plan.slot @h1 activations constant 1024 x bf16 {element_bytes = 2 : i64, layer = 1 : i64}
plan.slot @short activations constant 1024 x bf16 {element_bytes = 2 : i64, layer = 0 : i64}
plan.slot @small activations constant 8 x f32 {element_bytes = 4 : i64, layer = 0 : i64}
plan.slot @loss io constant 1 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @sums workspace constant 1 x f32 {element_bytes = 4 : i64}
plan.slot @staging io constant 64 x i8 {element_bytes = 1 : i64}
plan.bucket @b {decayed = 0 : i64, elements = 64 : i64, gradient_slot = @b.gradient, parameter_slot = @b.parameter, trainable}
plan.bucket @c {decayed = 0 : i64, elements = 64 : i64, gradient_slot = @c.gradient, parameter_slot = @b.parameter, trainable}

// CHECK: plan.program @microstep
plan.program @microstep {
  // CHECK-NEXT: plan.launch "forward 0"
  // CHECK-NEXT: plan.record "h0 out free"
  // CHECK-NEXT: plan.wait "h0 out begin" [] {{.*}}stream = 2
  // CHECK-NEXT: plan.move "h0 out" [#plan.operand<read @h0, 0, 0>, #plan.operand<write @h0.below, 0, 0>] {{.*}}stream = 2
  // CHECK-NEXT: plan.record "h0 out end"
  plan.launch "forward 0" [#plan.operand<write @short, 0, 0>, #plan.operand<write @small, 0, 0>, #plan.operand<write @h0, 0, 0>] {layer = 0 : i64}
  // CHECK-NEXT: plan.launch "forward 1"
  // CHECK: plan.move "h1 out"
  plan.launch "forward 1" [#plan.operand<read @short, 0, 0>, #plan.operand<write @h1, 0, 0>] {layer = 1 : i64}
  // CHECK: plan.wait "h0 out done" [#plan.operand<read @h0, 0, 0>]
  // CHECK-NEXT: plan.linear_cross_entropy
  plan.linear_cross_entropy "loss" [#plan.operand<write @loss, 0, 0>] {chunk = 1 : i64, gpu_chunk = 1 : i64, tokens = 1 : i64, training, type = bf16, vocabulary = 1 : i64, width = 1 : i64}
  // What comes back does not begin before the loss, and in the order in which it is needed.
  // CHECK: plan.move "h1 again in" [#plan.operand<read @h1.below, 0, 0>, #plan.operand<write @h1.again, 0, 0>]
  // CHECK: plan.move "h0 again in" [#plan.operand<read @h0.below, 0, 0>, #plan.operand<write @h0.again, 0, 0>]
  // CHECK: plan.move "b.accumulated_gradient in" {{.*}}@b.accumulated_gradient.below
  // CHECK: plan.launch "backward 1" [#plan.operand<read @h1.again, 0, 0>]
  plan.launch "backward 1" [#plan.operand<read @h1, 0, 0>] {layer = 1 : i64}
  // CHECK: plan.wait "h0 again in done"
  // CHECK: plan.launch "backward 0" [#plan.operand<read @h0.again, 0, 0>, #plan.operand<read @small, 0, 0>]
  plan.launch "backward 0" [#plan.operand<read @h0, 0, 0>, #plan.operand<read @small, 0, 0>] {layer = 0 : i64}
  // CHECK: plan.launch "b cast" [#plan.operand<read_write @b.accumulated_gradient, 0, 0>]
  plan.launch "b cast" [#plan.operand<read_write @b.accumulated_gradient, 0, 0>] {bucket = @b, layer = 0 : i64}
  // CHECK: plan.narrow "b round"
  // CHECK-DAG: plan.move "b.accumulated_gradient out"
  // CHECK-DAG: plan.move "b.gradient out"
  plan.narrow "b round" [#plan.operand<read @b.accumulated_gradient, 0, 0>, #plan.operand<write @b.gradient, 0, 0>] {from = f32, layer = 0 : i64, only_last, to = bf16}
  // CHECK: plan.collective "reduce c" [{{.*}}@c.gradient, 0, 0>
  plan.collective "reduce c" [#plan.operand<read_write @c.gradient, 0, 0>] {axis = "data", bucket = @c, kind = #plan.collective<reduce_scatter>, launch_order = 0 : i64, stream = 1 : i64, type = f32}
}
// CHECK: plan.program @update
plan.program @update {
  // CHECK: plan.move "b.gradient again in" {{.*}}@b.gradient.below{{.*}}@b.gradient.again, 0, 0>
  // CHECK: plan.launch "norm" [#plan.operand<read @b.gradient.again, 0, 0>
  plan.launch "norm" [#plan.operand<read @b.gradient, 0, 0>, #plan.operand<write @sums, 0, 0>] {bucket = @b, layer = 0 : i64}
  plan.launch "scalars" [#plan.operand<read_write @sums, 0, 0>]
  // CHECK: plan.launch "adamw" [#plan.operand<read @b.gradient.again2, 0, 0>]
  plan.launch "adamw" [#plan.operand<read @b.gradient, 0, 0>] {bucket = @b, layer = 0 : i64}
}
plan.program @transfer {
  // CHECK: plan.transfer "transfer" [#plan.operand<read_write @staging, 0, 0>]
  plan.transfer "transfer" [#plan.operand<read_write @staging, 0, 0>, #plan.operand<read @b.gradient, 0, 0>]
}
