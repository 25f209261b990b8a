// The shard of the second gather moves in where the first begins, beside what is computed between them; then both gathers are in place, and at one rank what is
// gathered has storage of its own.
// RUN: ztc-opt %s --ztc-move-gathers | FileCheck %s

// CHECK: plan.slot @a.full gathered full 64 x f32 {element_bytes = 4 : i64}
plan.slot @a.parameter parameters shard 64 x f32 {element_bytes = 4 : i64, persistent, space = #plan.space<disk>}
plan.slot @b.parameter parameters shard 64 x f32 {element_bytes = 4 : i64, persistent, space = #plan.space<host>}
plan.slot @a.full gathered full 64 x f32 {element_bytes = 4 : i64, same_as_at_one_rank = @a.parameter}
plan.slot @b.full gathered full 64 x f32 {element_bytes = 4 : i64, same_as_at_one_rank = @b.parameter}
// CHECK:      plan.program @eval
// CHECK-NEXT:   plan.record "all_gather a move free" [] {event = 4
// CHECK-NEXT:   plan.wait "all_gather a move begin" [] {event = 4 {{.*}}stream = 2
// CHECK-NEXT:   plan.move "all_gather a move in" [#plan.operand<read @a.parameter, 0, 0>, #plan.operand<write @a.full, 0, 0, own_shard>] {{.*}}stream = 2
// CHECK-NEXT:   plan.record "all_gather a move end" [] {event = 5 {{.*}}stream = 2
// CHECK-NEXT:   plan.wait "all_gather a move done" [#plan.operand<write @a.full, 0, 0>] {event = 5
// CHECK-NEXT:   plan.record "all_gather b move free"
// CHECK-NEXT:   plan.wait "all_gather b move begin"
// CHECK-NEXT:   plan.move "all_gather b move in"
// CHECK-NEXT:   plan.record "all_gather b move end" [] {event = 7
// CHECK-NEXT:   plan.record "all_gather a ready"
// CHECK-NEXT:   plan.wait "all_gather a begin"
// CHECK-NEXT:   plan.collective "all_gather a" [#plan.operand<read @a.full, 0, 0, own_shard>, #plan.operand<write @a.full, 0, 0>]
// CHECK-NEXT:   plan.record "all_gather a end"
// CHECK-NEXT:   plan.wait "all_gather a done" [#plan.operand<write @a.full, 0, 0>] {event = 1
// CHECK-NEXT:   plan.fill "compute"
// CHECK-NEXT:   plan.wait "all_gather b move done" [#plan.operand<write @b.full, 0, 0>] {event = 7
// CHECK-NEXT:   plan.record "all_gather b ready"
plan.program @eval {
  plan.record "all_gather a ready" [] {event = 0 : i64}
  plan.wait "all_gather a begin" [] {event = 0 : i64, stream = 1 : i64}
  plan.collective "all_gather a" [#plan.operand<read @a.parameter, 0, 0>, #plan.operand<write @a.full, 0, 0>] {axis = "data", kind = #plan.collective<all_gather>, launch_order = 0 : i64, stream = 1 : i64, type = f32}
  plan.record "all_gather a end" [] {event = 1 : i64, stream = 1 : i64}
  plan.wait "all_gather a done" [#plan.operand<read @a.parameter, 0, 0>, #plan.operand<write @a.full, 0, 0>] {event = 1 : i64}
  plan.fill "compute" [#plan.operand<write @a.full, 0, 0>] {value = 0 : i64}
  plan.record "all_gather b ready" [] {event = 2 : i64}
  plan.wait "all_gather b begin" [] {event = 2 : i64, stream = 1 : i64}
  plan.collective "all_gather b" [#plan.operand<read @b.parameter, 0, 0>, #plan.operand<write @b.full, 0, 0>] {axis = "data", kind = #plan.collective<all_gather>, launch_order = 1 : i64, stream = 1 : i64, type = f32}
  plan.record "all_gather b end" [] {event = 3 : i64, stream = 1 : i64}
  plan.wait "all_gather b done" [#plan.operand<read @b.parameter, 0, 0>, #plan.operand<write @b.full, 0, 0>] {event = 3 : i64}
}
