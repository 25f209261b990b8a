// The update of a bucket whose states lie below: three pieces take turns in two windows. What was computed leaves while the next is computed, and the window is
// filled again after that. What is not of the bucket stays whole.
// RUN: ztc-opt %s --ztc-stream-update=piece-elements=262144 | FileCheck %s

plan.slot @b.parameter parameters full 600000 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @b.exp_avg optimizer shard 600000 x f32 {element_bytes = 4 : i64, persistent, space = #plan.space<disk>}
plan.slot @b.exp_avg_sq optimizer shard 600000 x !graph.block8<unsigned> {block_elements = 256 : i64, element_bytes = 260 : i64, persistent, quantum = 256 : i64, space = #plan.space<host>}
plan.slot @b.gradient gradients full 600000 x f32 {accumulator, element_bytes = 4 : i64}
plan.slot @norm workspace constant 1 x f32 {element_bytes = 4 : i64, persistent}
plan.bucket @b {decayed = 0 : i64, elements = 600000 : i64, gradient_slot = @b.gradient, parameter_slot = @b.parameter, trainable,
  states = [#plan.state<"exp_avg", @b.exp_avg>, #plan.state<"exp_avg_sq", @b.exp_avg_sq>]}

// CHECK: plan.slot @window0.exp_avg workspace constant 262144 x f32 {element_bytes = 4
// CHECK: plan.slot @window0.exp_avg_sq workspace constant 1024 x !graph.block8<unsigned> {element_bytes = 260
// CHECK: plan.slot @window1.exp_avg workspace
// CHECK: plan.slot @window1.exp_avg_sq workspace

// CHECK:      plan.program @update
// CHECK-NEXT:   plan.record "update moves free" [] {event = 7
// CHECK-NEXT:   plan.wait "update moves begin" [] {event = 7 {{.*}}stream = 2
// CHECK-NEXT:   plan.move "b piece 0 in" [#plan.operand<read @b.exp_avg, 0, 0, piece 0 of 262144>, #plan.operand<write @window0.exp_avg, 0, 0>,
// CHECK-SAME:     #plan.operand<read @b.exp_avg_sq, 0, 0, piece 0 of 262144>, #plan.operand<write @window0.exp_avg_sq, 0, 0>] {{.*}}stream = 2
// CHECK-NEXT:   plan.record "b piece 0 there" [] {event = 8 {{.*}}stream = 2
// CHECK-NEXT:   plan.move "b piece 1 in" {{.*}}@window1.exp_avg, 0, 0>
// CHECK-NEXT:   plan.record "b piece 1 there" [] {event = 9
// CHECK-NEXT:   plan.fill "norm"
// CHECK-NEXT:   plan.record "elsewhere" [] {event = 6
// CHECK-NEXT:   plan.wait "b piece 0 wait" [#plan.operand<read_write @window0.exp_avg, 0, 0>, #plan.operand<read_write @window0.exp_avg_sq, 0, 0>] {event = 8
// CHECK-NEXT:   plan.launch "adamw piece 0" [#plan.operand<read @b.parameter, 0, 0, own_shard, piece 0 of 262144>, #plan.operand<read @b.gradient, 0, 0, own_shard, piece 0 of 262144>,
// CHECK-SAME:     #plan.operand<read @norm, 0, 4>, #plan.operand<read @window0.exp_avg, 0, 0>, #plan.operand<read @window0.exp_avg_sq, 0, 0>,
// CHECK-SAME:     #plan.operand<write @b.parameter, 0, 0, own_shard, piece 0 of 262144>, #plan.operand<write @window0.exp_avg, 0, 0>] {{.*}}piece_elements = 262144
// CHECK-NEXT:   plan.record "b piece 0 done free"
// CHECK-NEXT:   plan.wait "b piece 0 done begin"
// What was only read does not go back.
// CHECK-NEXT:   plan.move "b piece 0 out" [#plan.operand<read @window0.exp_avg, 0, 0>, #plan.operand<write @b.exp_avg, 0, 0, piece 0 of 262144>] {
// CHECK-NEXT:   plan.move "b piece 2 in" {{.*}}piece 2 of 262144>, #plan.operand<write @window0.exp_avg, 0, 0>
// CHECK-NEXT:   plan.record "b piece 2 there"
// CHECK-NEXT:   plan.wait "b piece 1 wait" {{.*}}@window1
// CHECK-NEXT:   plan.launch "adamw piece 1"
// CHECK:        plan.move "b piece 1 out"
// CHECK-NEXT:   plan.wait "b piece 2 wait"
// CHECK:        plan.move "b piece 2 out"
// CHECK-NEXT:   plan.record "update moves end" [] {event = [[last:[0-9]+]] {{.*}}stream = 2
// CHECK-NEXT:   plan.wait "update moves done" [{{.*}}@window1.exp_avg,{{.*}}@window1.exp_avg_sq,{{.*}}@window0.exp_avg,{{.*}}@window0.exp_avg_sq{{.*}}] {event = [[last]]
plan.program @update {
  plan.fill "norm" [#plan.operand<write @norm, 0, 4>] {value = 0 : i64}
  plan.record "elsewhere" [] {event = 6 : i64}
  plan.launch "adamw" [#plan.operand<read @b.parameter, 0, 0, own_shard>, #plan.operand<read @b.gradient, 0, 0, own_shard>, #plan.operand<read @norm, 0, 4>,
    #plan.operand<read @b.exp_avg, 0, 0>, #plan.operand<read @b.exp_avg_sq, 0, 0>, #plan.operand<write @b.parameter, 0, 0, own_shard>,
    #plan.operand<write @b.exp_avg, 0, 0>] {bucket = @b, flat_block = 4096 : i64, flops = 10 : i64}
}
