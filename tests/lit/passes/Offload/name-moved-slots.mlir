// A wait for the last of several moves names what all of them moved; what moves once more later is named there, and nothing is named twice.
// RUN: ztc-opt %s --ztc-name-moved-slots | FileCheck %s

plan.slot @a workspace constant 64 x f32 {element_bytes = 4 : i64}
plan.slot @b workspace constant 64 x f32 {element_bytes = 4 : i64}
plan.slot @c workspace constant 64 x f32 {element_bytes = 4 : i64}
plan.slot @below optimizer constant 64 x f32 {element_bytes = 4 : i64, persistent, space = #plan.space<host>}

// CHECK: plan.program @update
plan.program @update {
  plan.move "a in" [#plan.operand<read @below, 0, 0>, #plan.operand<write @a, 0, 0>] {stream = 2 : i64}
  plan.move "b in" [#plan.operand<read @below, 0, 0>, #plan.operand<write @b, 0, 0>] {stream = 2 : i64}
  plan.record "b there" [] {event = 0 : i64, stream = 2 : i64}
  plan.move "b out" [#plan.operand<read @b, 0, 0>, #plan.operand<write @below, 0, 0>] {stream = 2 : i64}
  plan.move "c in" [#plan.operand<read @below, 0, 0>, #plan.operand<write @c, 0, 0>] {stream = 2 : i64}
  plan.record "c there" [] {event = 1 : i64, stream = 2 : i64}
  // CHECK: plan.wait "b there done" [#plan.operand<read_write @a, 0, 0>] {event = 0
  plan.wait "b there done" [] {event = 0 : i64}
  // CHECK: plan.wait "c there done" [#plan.operand<write @c, 0, 0>, #plan.operand<read_write @b, 0, 0>] {event = 1
  plan.wait "c there done" [#plan.operand<write @c, 0, 0>] {event = 1 : i64}
  // CHECK: plan.wait "elsewhere" [] {event = 2
  plan.record "elsewhere" [] {event = 2 : i64, stream = 1 : i64}
  plan.wait "elsewhere" [] {event = 2 : i64}
}
