// A selective scan and its gradient become steps of one kind.
// RUN: ztc-opt %s --ztc-convert-to-plan | FileCheck %s

dist.mesh @mesh ["data"]
plan.slot @v activations constant 6400 x f32 {element_bytes = 4 : i64}
plan.slot @rate activations constant 480 x f32 {element_bytes = 4 : i64}
plan.slot @b activations constant 480 x f32 {element_bytes = 4 : i64}
plan.slot @starts activations constant 80 x i32 {element_bytes = 4 : i64}
plan.slot @y activations constant 6400 x f32 {element_bytes = 4 : i64}
plan.slot @states activations constant 1920 x f32 {element_bytes = 4 : i64}
plan.slot @drate activations constant 960 x f32 {element_bytes = 4 : i64}
plan.slot @db activations constant 960 x f32 {element_bytes = 4 : i64}
plan.slot @scratch workspace per_thread 64 x f32 {element_bytes = 4 : i64}

// CHECK:      plan.selective_scan "selective_scan" [#plan.operand<read @v, 0, 25600>, #plan.operand<read @v, 0, 25600>, #plan.operand<read @rate, 0, 1920>, #plan.operand<read @b, 0, 1920>, #plan.operand<read @b, 0, 1920>, #plan.operand<write @y, 0, 25600>, #plan.operand<write @states, 0, 7680>, #plan.operand<read @starts, 0, 320>]
// CHECK-SAME:   batch = 2 : i64, channels = 80 : i64, chunk = 32 : i64
// CHECK-SAME:   packed, positions = 40 : i64
// CHECK-SAME:   states = 6 : i64
// CHECK-NEXT: plan.selective_scan "selective_scan_grad" [{{.*}}#plan.operand<write @scratch, 0, 0>]
// CHECK-SAME:   grad
// CHECK-NOT:    packed
func.func @microstep(%v: tensor<2x40x80xf32> {plan.place = #plan.place<@v, 0>}, %rate: tensor<6x80xf32> {plan.place = #plan.place<@rate, 0>},
                     %b: tensor<2x40x6xf32> {plan.place = #plan.place<@b, 0>}, %starts: tensor<2x40xi32> {plan.place = #plan.place<@starts, 0>}) attributes {graph.entry = #graph.entry<microstep>} {
  %y, %states = graph.selective_scan %v, %v, %rate, %b, %b within %starts : tensor<2x40xi32> {chunk = 32 : i64, plan.places = [#plan.place<@y, 0>, #plan.place<@states, 0>]}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  %dv, %ddelta, %drate, %db, %dc = graph.selective_scan_grad %v, %v, %rate, %b, %b, %states, %y
    {chunk = 32 : i64, plan.places = [#plan.place<@v, 0>, #plan.place<@v, 0>, #plan.place<@drate, 0>, #plan.place<@db, 0>, #plan.place<@db, 0>], plan.scratch = [#plan.place<@scratch, 0>]}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32>, tensor<2x2x6x80xf32>, tensor<2x40x80xf32>
    -> tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<2x6x80xf32>, tensor<2x2x40x6xf32>, tensor<2x2x40x6xf32>
  return
}
