// Parameters that every rank keeps whole come one block ahead to a window, of the forward and of the backward. An update of the whole bucket works on them where
// they lie; one of a shard, which a gather makes whole again, in a window that goes down while the next bucket is updated. Frozen ones go first.
// RUN: ztc-opt %s --ztc-bring-parameters=choice=parameters=3+2 --split-input-file | FileCheck %s
// RUN: not ztc-opt %s --ztc-bring-parameters=choice=parameter=1+0 --split-input-file 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: ztc-opt %s --ztc-bring-parameters --split-input-file | FileCheck %s --check-prefix=NONE
// WRONG: choice 'parameter=1+0' is not of the form
// NONE-NOT: plan.move

// CHECK:      plan.slot @a.parameter parameters full 64 x bf16 {element_bytes = 2 : i64, layer = 0 : i64, persistent, space = #plan.space<host>}
// CHECK-NEXT: plan.slot @a.parameter.brought2 gathered full 64 x bf16 {element_bytes = 2 : i64, layer = 0 : i64, reason = "from below, for the steps that work on it"}
// CHECK-NEXT: plan.slot @a.parameter.brought gathered full
// CHECK-NEXT: plan.slot @b.parameter parameters {{.*}}space = #plan.space<disk>
// CHECK-NEXT: plan.slot @b.parameter.updated gathered
// CHECK-NEXT: plan.slot @b.parameter.brought2 gathered
// CHECK-NEXT: plan.slot @b.parameter.brought gathered
// CHECK-NEXT: plan.slot @c.parameter parameters {{.*}}space = #plan.space<disk>
// CHECK:      plan.slot @f.parameter {{.*}}space = #plan.space<host>
// CHECK:      plan.slot @g.parameter {{.*}}space = #plan.space<host>
// A shard is gathered: that is another pass's.
// CHECK:      plan.slot @s.parameter {{[^#]*}}}
plan.slot @a.parameter parameters full 64 x bf16 {element_bytes = 2 : i64, layer = 0 : i64, persistent}
plan.slot @b.parameter parameters full 64 x bf16 {element_bytes = 2 : i64, layer = 1 : i64, persistent}
plan.slot @c.parameter parameters full 64 x bf16 {element_bytes = 2 : i64, layer = 2 : i64, persistent}
plan.slot @f.parameter parameters full 64 x i8 {element_bytes = 1 : i64, layer = 0 : i64, persistent}
plan.slot @g.parameter parameters full 64 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @s.parameter parameters shard 64 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @h activations constant 64 x bf16 {element_bytes = 2 : i64}
plan.slot @loss io constant 1 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @staging io constant 64 x i8 {element_bytes = 1 : i64}
plan.bucket @a {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @a.parameter, trainable}
plan.bucket @b {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @b.parameter, trainable}
plan.bucket @c {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @c.parameter, trainable}
plan.bucket @f {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @f.parameter}
plan.bucket @g {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @g.parameter}
plan.bucket @s {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @s.parameter, trainable}

// CHECK: plan.program @microstep
plan.program @microstep {
  // What block 0 needs comes before the first step, and what block 1 needs while block 0 computes.
  // CHECK-NEXT: plan.record "f.parameter.brought in free"
  // CHECK-NEXT: plan.wait "f.parameter.brought in begin" [] {{.*}}stream = 2
  // CHECK-NEXT: plan.move "f.parameter.brought in" [#plan.operand<read @f.parameter, 0, 0>, #plan.operand<write @f.parameter.brought, 0, 0>] {{.*}}stream = 2
  // CHECK-NEXT: plan.record "f.parameter.brought in end"
  // CHECK-NEXT: plan.wait "f.parameter.brought in done" [#plan.operand<write @f.parameter.brought, 0, 0>]
  // CHECK:      plan.move "a.parameter.brought in"
  // CHECK:      plan.move "b.parameter.brought in" [#plan.operand<read @b.parameter, 0, 0>
  // CHECK-NOT:  plan.wait "b.parameter.brought in done"
  // CHECK:      plan.launch "forward 0" [#plan.operand<read @f.parameter.brought, 16, 32>, #plan.operand<read @a.parameter.brought, 0, 64>, #plan.operand<write @h, 0, 0>]
  plan.launch "forward 0" [#plan.operand<read @f.parameter, 16, 32>, #plan.operand<read @a.parameter, 0, 64>, #plan.operand<write @h, 0, 0>] {layer = 0 : i64}
  // CHECK-NEXT: plan.wait "b.parameter.brought in done" [#plan.operand<write @b.parameter.brought, 0, 0>]
  // CHECK:      plan.move "c.parameter.brought in"
  // CHECK:      plan.launch "forward 1" [#plan.operand<read @b.parameter.brought, 0, 0>
  plan.launch "forward 1" [#plan.operand<read @b.parameter, 0, 0>, #plan.operand<read_write @h, 0, 0>] {layer = 1 : i64}
  // CHECK:      plan.launch "forward 2" [#plan.operand<read @c.parameter.brought, 0, 0>
  plan.launch "forward 2" [#plan.operand<read @c.parameter, 0, 0>, #plan.operand<read_write @h, 0, 0>] {layer = 2 : i64}
  plan.launch "loss" [#plan.operand<read @h, 0, 0>, #plan.operand<write @loss, 0, 0>]
  // One window serves both sides of the turning point, and block 1, between whose uses one block and the loss compute, has another.
  // CHECK-NOT:  plan.move "c.parameter
  // CHECK:      plan.launch "backward 2" [#plan.operand<read @c.parameter.brought, 0, 0>
  plan.launch "backward 2" [#plan.operand<read @c.parameter, 0, 0>, #plan.operand<read_write @h, 0, 0>] {layer = 2 : i64}
  // CHECK:      plan.launch "backward 1" [#plan.operand<read @b.parameter.brought2, 0, 0>
  plan.launch "backward 1" [#plan.operand<read @b.parameter, 0, 0>, #plan.operand<read_write @h, 0, 0>] {layer = 1 : i64}
  // CHECK:      plan.launch "backward 0" [#plan.operand<read @a.parameter.brought2, 64, 0>
  plan.launch "backward 0" [#plan.operand<read @a.parameter, 64, 0>, #plan.operand<read_write @h, 0, 0>] {layer = 0 : i64}
}
// CHECK: plan.program @update
plan.program @update {
  // CHECK:      plan.move "b.parameter.updated in" [#plan.operand<read @b.parameter, 0, 0>, #plan.operand<write @b.parameter.updated, 0, 0>]
  // CHECK:      plan.launch "a adamw" [#plan.operand<read_write @a.parameter, 0, 0>]
  plan.launch "a adamw" [#plan.operand<read_write @a.parameter, 0, 0>] {bucket = @a, flat_block = 64 : i64, layer = 0 : i64}
  // CHECK-NEXT: plan.wait "b.parameter.updated in done"
  // CHECK:      plan.move "c.parameter.updated in"
  // CHECK:      plan.launch "b adamw" [#plan.operand<read_write @b.parameter.updated, 0, 0, own_shard>]
  plan.launch "b adamw" [#plan.operand<read_write @b.parameter, 0, 0, own_shard>] {bucket = @b, flat_block = 64 : i64, layer = 1 : i64}
  plan.record "all_gather b ready" [] {event = 0 : i64}
  plan.wait "all_gather b begin" [] {event = 0 : i64, stream = 1 : i64}
  // CHECK:      plan.collective "all_gather b" [#plan.operand<read @b.parameter.updated, 0, 0, own_shard>, #plan.operand<write @b.parameter.updated, 0, 0>]
  plan.collective "all_gather b" [#plan.operand<read @b.parameter, 0, 0, own_shard>, #plan.operand<write @b.parameter, 0, 0>] {axis = "data", bucket = @b, kind = #plan.collective<all_gather>, launch_order = 0 : i64, stream = 1 : i64, type = bf16}
  plan.record "all_gather b end" [] {event = 1 : i64, stream = 1 : i64}
  // CHECK:      plan.launch "c adamw"
  plan.launch "c adamw" [#plan.operand<read_write @c.parameter, 0, 0, own_shard>] {bucket = @c, flat_block = 64 : i64, layer = 2 : i64}
  plan.record "all_gather c ready" [] {event = 2 : i64}
  plan.wait "all_gather c begin" [] {event = 2 : i64, stream = 1 : i64}
  plan.collective "all_gather c" [#plan.operand<read @c.parameter, 0, 0, own_shard>, #plan.operand<write @c.parameter, 0, 0>] {axis = "data", bucket = @c, kind = #plan.collective<all_gather>, launch_order = 1 : i64, stream = 1 : i64, type = bf16}
  plan.record "all_gather c end" [] {event = 3 : i64, stream = 1 : i64}
  // The wait for a gather stands no longer where all updates end.
  // CHECK:      plan.wait "all_gather b done" [#plan.operand<write @b.parameter.updated, 0, 0>]
  // CHECK-NEXT: plan.record "b.parameter.updated out free"
  // CHECK-NEXT: plan.wait "b.parameter.updated out begin" [] {{.*}}stream = 2
  // CHECK-NEXT: plan.move "b.parameter.updated out" [#plan.operand<read @b.parameter.updated, 0, 0>, #plan.operand<write @b.parameter, 0, 0>] {{.*}}stream = 2
  // CHECK-NEXT: plan.record "b.parameter.updated out end"
  // CHECK-NEXT: plan.fill "other"
  plan.fill "other" [#plan.operand<write @h, 0, 0>] {layer = 3 : i64, value = 0 : i64}
  plan.fill "last" [#plan.operand<write @h, 0, 0>] {layer = 4 : i64, value = 0 : i64}
  plan.wait "all_gather b done" [#plan.operand<write @b.parameter, 0, 0>] {event = 1 : i64}
  // CHECK:      plan.wait "all_gather c done" [#plan.operand<write @c.parameter.updated, 0, 0>]
  // CHECK:      plan.move "c.parameter.updated out"
  // CHECK:      plan.wait "c.parameter.updated out done" [#plan.operand<read @c.parameter.updated, 0, 0>]
  plan.wait "all_gather c done" [#plan.operand<write @c.parameter, 0, 0>] {event = 3 : i64}
}
plan.program @eval {
  // Programs share windows.
  // CHECK: plan.launch "eval" [#plan.operand<read @a.parameter.brought, 0, 0>]
  plan.launch "eval" [#plan.operand<read @a.parameter, 0, 0>]
}
plan.program @transfer {
  // What goes to a checkpoint is read where it lies.
  // CHECK: plan.transfer "transfer" [#plan.operand<read_write @staging, 0, 0>]
  plan.transfer "transfer" [#plan.operand<read_write @staging, 0, 0>, #plan.operand<read @a.parameter, 0, 0>]
}

// -----

// What another slot shares, and what a step of another stream works on, stays.
// CHECK: plan.slot @a.parameter parameters full 64 x bf16 {element_bytes = 2 : i64, persistent}
// CHECK: plan.slot @b.parameter parameters full 64 x bf16 {element_bytes = 2 : i64, persistent}
// CHECK-NOT: plan.move
plan.slot @a.parameter parameters full 64 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @b.parameter parameters full 64 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @a.view gathered full 64 x bf16 {element_bytes = 2 : i64, same_as_at_one_rank = @a.parameter}
plan.bucket @a {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @a.parameter, trainable}
plan.bucket @b {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @b.parameter, trainable}
plan.program @microstep {
  plan.launch "forward 0" [#plan.operand<read @a.parameter, 0, 0>] {layer = 0 : i64}
  plan.collective "reduce" [#plan.operand<read_write @b.parameter, 0, 0>] {axis = "data", bucket = @b, kind = #plan.collective<reduce_scatter>, launch_order = 0 : i64, stream = 1 : i64, type = bf16}
}
