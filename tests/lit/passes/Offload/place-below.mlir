// The first buckets of each kind go below: of states one to the host's memory and one to the disk, of masters one; parameters where they are gathered, frozen ones
// first. What other steps work on stays, with a remark.
// RUN: ztc-opt %s --ztc-place-below=choice=states=1+2/masters=0+1/parameters=0+2 2>&1 | FileCheck %s
// RUN: not ztc-opt %s --ztc-place-below=choice=moments=1+2 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: choice 'moments=1+2' is not of the form

// CHECK: plan.slot @a.parameter {{.*}}space = #plan.space<disk>
// CHECK: plan.slot @b.parameter {{[^#]*}}}
// CHECK: plan.slot @f.parameter {{.*}}space = #plan.space<disk>
// CHECK: plan.slot @a.m {{.*}}space = #plan.space<host>
// CHECK: plan.slot @b.m {{.*}}space = #plan.space<disk>
// CHECK: plan.slot @c.m {{[^#]*}}}
// CHECK: plan.slot @a.master {{.*}}space = #plan.space<disk>
// CHECK: plan.slot @b.master {{[^#]*}}}
plan.slot @a.parameter parameters shard 64 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @b.parameter parameters shard 64 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @f.parameter parameters shard 64 x bf16 {element_bytes = 2 : i64, persistent}
plan.slot @a.m optimizer shard 64 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @b.m optimizer shard 64 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @c.m optimizer shard 64 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @a.master optimizer shard 64 x i16 {element_bytes = 2 : i64, persistent}
plan.slot @b.master optimizer shard 64 x i16 {element_bytes = 2 : i64, persistent}
plan.slot @full gathered full 64 x bf16 {element_bytes = 2 : i64, same_as_at_one_rank = @a.parameter}
plan.bucket @a {decayed = 0 : i64, elements = 64 : i64, master_slot = @a.master, parameter_slot = @a.parameter, trainable, states = [#plan.state<"m", @a.m>]}
plan.bucket @b {decayed = 0 : i64, elements = 64 : i64, master_slot = @b.master, parameter_slot = @b.parameter, trainable, states = [#plan.state<"m", @b.m>]}
plan.bucket @c {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @b.parameter, trainable, states = [#plan.state<"m", @c.m>]}
plan.bucket @f {decayed = 0 : i64, elements = 64 : i64, parameter_slot = @f.parameter}
plan.program @microstep {
  // The wait for it names its slots.
  plan.wait "all_gather a done" [#plan.operand<read @a.parameter, 0, 0>, #plan.operand<write @full, 0, 0>] {event = 1 : i64}
  plan.collective "all_gather a" [#plan.operand<read @a.parameter, 0, 0>, #plan.operand<write @full, 0, 0>] {axis = "data", bucket = @a, kind = #plan.collective<all_gather>, launch_order = 0 : i64, stream = 1 : i64, type = bf16}
}
plan.program @update {
  plan.launch "a" [#plan.operand<read @a.parameter, 0, 0>, #plan.operand<read_write @a.m, 0, 0>, #plan.operand<read_write @a.master, 0, 0>] {bucket = @a, flat_block = 64 : i64}
  plan.launch "b" [#plan.operand<read_write @b.m, 0, 0>] {bucket = @b, flat_block = 64 : i64}
  // Two steps work on it.
  plan.launch "c" [#plan.operand<read_write @c.m, 0, 0>] {bucket = @c, flat_block = 64 : i64}
  plan.launch "c again" [#plan.operand<read_write @c.m, 0, 0>] {bucket = @c, flat_block = 64 : i64}
}
