// Where updates are in the backward a bucket of usual size is one piece, and moves begin with the first update: the next bucket's states come during its backward,
// and what was updated leaves meanwhile. A bucket whose states are wider goes through windows of the same bytes. States may lie below in such a program too.
// RUN: ztc-opt %s --ztc-place-below=choice=states=3+0 --ztc-stream-update --ztc-name-moved-slots | FileCheck %s

// CHECK: plan.slot @window0.exp_avg workspace constant 8388608 x i8
// CHECK: plan.slot @window0.exp_avg.1 workspace constant 2097152 x f32
plan.slot @a.parameter parameters full 8388608 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @a.gradient gradients full 8388608 x bf16 {element_bytes = 2 : i64}
plan.slot @a.exp_avg optimizer full 8388608 x i8 {element_bytes = 1 : i64, persistent}
plan.slot @b.parameter parameters full 8388608 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @b.gradient gradients full 8388608 x bf16 {element_bytes = 2 : i64}
plan.slot @b.exp_avg optimizer full 8388608 x i8 {element_bytes = 1 : i64, persistent}
plan.slot @e.parameter parameters full 4194304 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @e.gradient gradients full 4194304 x bf16 {element_bytes = 2 : i64}
plan.slot @e.exp_avg optimizer full 4194304 x f32 {element_bytes = 4 : i64, persistent}
plan.bucket @a {decayed = 0 : i64, elements = 8388608 : i64, parameter_slot = @a.parameter, trainable, states = [#plan.state<"exp_avg", @a.exp_avg>]}
plan.bucket @b {decayed = 0 : i64, elements = 8388608 : i64, parameter_slot = @b.parameter, trainable, states = [#plan.state<"exp_avg", @b.exp_avg>]}
plan.bucket @e {decayed = 0 : i64, elements = 4194304 : i64, parameter_slot = @e.parameter, trainable, states = [#plan.state<"exp_avg", @e.exp_avg>]}

// CHECK: plan.program @microstep
plan.program @microstep {
  // CHECK-NEXT: plan.fill "forward"
  plan.fill "forward" [#plan.operand<write @a.gradient, 0, 0>] {value = 0 : i64}
  // CHECK: plan.move "b piece 0 in"
  // CHECK: plan.move "a piece 0 in"
  // CHECK: plan.launch "update b piece 0" {{.*}}piece_elements = 8388608
  plan.launch "update b" [#plan.operand<read @b.gradient, 0, 0>, #plan.operand<read_write @b.exp_avg, 0, 0>, #plan.operand<write @b.parameter, 0, 0>] {bucket = @b, flat_block = 4096 : i64}
  // CHECK: plan.move "b piece 0 out"
  // CHECK: plan.move "e piece 0 in"
  // CHECK: plan.fill "backward"
  plan.fill "backward" [#plan.operand<write @a.gradient, 0, 0>] {value = 0 : i64}
  // CHECK: plan.wait "a piece 0 wait" [#plan.operand<read_write @window1.exp_avg, 0, 0>]
  // CHECK: plan.launch "update a piece 0"
  plan.launch "update a" [#plan.operand<read @a.gradient, 0, 0>, #plan.operand<read_write @a.exp_avg, 0, 0>, #plan.operand<write @a.parameter, 0, 0>] {bucket = @a, flat_block = 4096 : i64}
  // CHECK: plan.launch "update e piece 0" {{.*}}piece_elements = 2097152
  // CHECK: plan.launch "update e piece 1" {{.*}}piece_elements = 2097152
  plan.launch "update e" [#plan.operand<read @e.gradient, 0, 0>, #plan.operand<read_write @e.exp_avg, 0, 0>, #plan.operand<write @e.parameter, 0, 0>] {bucket = @e, flat_block = 4096 : i64}
  // CHECK: plan.wait "update moves done"
}
