// What chunks of linear attention are made of: states from chunk to chunk, inverses of a chunk's matrices.
// RUN: ztc-opt %s --ztc-convert-to-plan | FileCheck %s

dist.mesh @mesh ["data"]
plan.slot @to activations constant 512 x f32 {element_bytes = 4 : i64}
plan.slot @from activations constant 512 x f32 {element_bytes = 4 : i64}
plan.slot @update activations constant 160 x f32 {element_bytes = 4 : i64}
plan.slot @decay activations constant 128 x f32 {element_bytes = 4 : i64}
plan.slot @before activations constant 640 x f32 {element_bytes = 4 : i64}
plan.slot @last activations constant 160 x f32 {element_bytes = 4 : i64}
plan.slot @x activations constant 160 x f32 {element_bytes = 4 : i64}
plan.slot @again activations constant 640 x f32 {element_bytes = 4 : i64}
plan.slot @end activations constant 160 x f32 {element_bytes = 4 : i64}
plan.slot @a activations constant 128 x f32 {element_bytes = 4 : i64}
plan.slot @y activations constant 128 x f32 {element_bytes = 4 : i64}

// CHECK:      plan.state_passing "states" [#plan.operand<read @to, 0, 2048>, #plan.operand<read @from, 0, 2048>, #plan.operand<read @update, 0, 640>, #plan.operand<read @decay, 0, 512>, #plan.operand<write @before, 0, 2560>, #plan.operand<write @last, 0, 640>, #plan.operand<write @x, 0, 640>]
// CHECK-SAME:   chunks = 4 : i64, decay_keys = 16 : i64, decay_parts = 1 : i64
// CHECK-SAME:   keys = 16 : i64
// CHECK-SAME:   positions = 4 : i64
// CHECK-SAME:   rows = 2 : i64
// CHECK-SAME:   values = 5 : i64
// CHECK-NEXT: plan.state_passing "states 2" [#plan.operand<read @before, 0, 2560>, #plan.operand<read @last, 0, 640>, #plan.operand<write @again, 0, 2560>, #plan.operand<write @end, 0, 640>]
// CHECK-SAME:   chunks = 4 : i64
// CHECK-SAME:   past, plus
// CHECK-SAME:   reverse
// CHECK-NEXT: plan.unit_lower_inverse "inverse" [#plan.operand<read @a, 0, 512>, #plan.operand<write @y, 0, 512>]
// CHECK-SAME:   count = 8 : i64
// CHECK-SAME:   size = 4 : i64
func.func @microstep(%to: tensor<8x4x16xf32> {plan.place = #plan.place<@to, 0>}, %from: tensor<8x4x16xf32> {plan.place = #plan.place<@from, 0>},
                     %update: tensor<8x4x5xf32> {plan.place = #plan.place<@update, 0>}, %decay: tensor<8x16x1xf32> {plan.place = #plan.place<@decay, 0>},
                     %a: tensor<8x4x4xf32> {plan.place = #plan.place<@a, 0>}) attributes {graph.entry = #graph.entry<microstep>} {
  %before, %last, %x = graph.state_passing to %to : tensor<8x4x16xf32> from %from : tensor<8x4x16xf32> update %update : tensor<8x4x5xf32> decay %decay : tensor<8x16x1xf32>
    {chunks = 4 : i64, plan.places = [#plan.place<@before, 0>, #plan.place<@last, 0>, #plan.place<@x, 0>]} : tensor<8x16x5xf32>, tensor<2x16x5xf32>, tensor<8x4x5xf32>
  %again, %end = graph.state_passing plus %before : tensor<8x16x5xf32> past %last : tensor<2x16x5xf32>
    {chunks = 4 : i64, reverse, plan.places = [#plan.place<@again, 0>, #plan.place<@end, 0>]} : tensor<8x16x5xf32>, tensor<2x16x5xf32>
  %y = graph.unit_lower_inverse %a {plan.places = [#plan.place<@y, 0>]} : tensor<8x4x4xf32>
  return
}
