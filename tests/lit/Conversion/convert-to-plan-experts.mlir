// Routed experts become steps of their own: the order of choices, rows by choice, products of groups, sums of choices.
// RUN: ztc-opt %s --ztc-convert-to-plan | FileCheck %s

dist.mesh @mesh ["data"]
plan.slot @choices activations constant 32 x i32 {element_bytes = 4 : i64}
plan.slot @order activations constant 32 x i32 {element_bytes = 4 : i64}
plan.slot @places activations constant 32 x i32 {element_bytes = 4 : i64}
plan.slot @starts activations constant 5 x i32 {element_bytes = 4 : i64}
plan.slot @x activations constant 640 x bf16 {element_bytes = 2 : i64}
plan.slot @w activations constant 3200 x bf16 {element_bytes = 2 : i64}
plan.slot @rows activations constant 1280 x bf16 {element_bytes = 2 : i64}
plan.slot @h activations constant 640 x bf16 {element_bytes = 2 : i64}
plan.slot @back activations constant 1280 x bf16 {element_bytes = 2 : i64}
plan.slot @dw activations constant 3200 x f32 {element_bytes = 4 : i64}
plan.slot @y activations constant 640 x bf16 {element_bytes = 2 : i64}
plan.slot @panels workspace per_thread 64 x f32 {element_bytes = 4 : i64}

// CHECK:      plan.route "route" [#plan.operand<read @choices, 0, 128>, #plan.operand<write @order, 0, 128>, #plan.operand<write @places, 0, 128>, #plan.operand<write @starts, 0, 20>]
// CHECK-SAME:   choices = 2 : i64, experts = 4 : i64
// CHECK-SAME:   tokens = 16 : i64
// CHECK-NEXT: plan.gather "dispatch" [#plan.operand<read @x, 0, 1280>, #plan.operand<read @order, 0, 128>, #plan.operand<write @rows, 0, 2560>]
// CHECK-SAME:   divisor = 2 : i64
// CHECK-SAME:   row_bytes = 80 : i64, rows = 32 : i64, table_rows = 16 : i64
// CHECK-NEXT: plan.grouped_gemm "grouped matmul" [#plan.operand<read @rows, 0, 2560>, #plan.operand<read @w, 0, 6400>, #plan.operand<read @starts, 0, 20>, #plan.operand<write @h, 0, 1280>, #plan.operand<write @panels, 0, 0>]
// CHECK-SAME:   flops = 51200 : i64, groups = 4 : i64, k = 40 : i64, n = 20 : i64
// CHECK-SAME:   rows = 32 : i64, transpose_b, type_a = bf16, type_c = bf16
// CHECK-NEXT: plan.grouped_gemm "grouped matmul 2"
// CHECK-SAME:   k = 20 : i64, n = 40 : i64
// CHECK-SAME:   rows = 32 : i64, type_a = bf16, type_c = bf16
// CHECK-NEXT: plan.grouped_gemm "grouped matmul 3" [#plan.operand<read @h, 0, 1280>, #plan.operand<read @rows, 0, 2560>, #plan.operand<read @starts, 0, 20>, #plan.operand<read_write @dw, 0, 12800>, #plan.operand<write @panels, 0, 0>]
// CHECK-SAME:   accumulate = #plan.accumulate<add>
// CHECK-SAME:   groups = 4 : i64, k = 20 : i64, n = 40 : i64, outer
// CHECK-SAME:   rows = 32 : i64, type_a = bf16, type_c = f32
// CHECK-NEXT: plan.combine "combine" [#plan.operand<read @back, 0, 2560>, #plan.operand<read @places, 0, 128>, #plan.operand<write @y, 0, 1280>]
// CHECK-SAME:   choices = 2 : i64
// CHECK-SAME:   rows = 16 : i64, type = bf16, width = 40 : i64
func.func @microstep(%choices: tensor<16x2xi32> {plan.place = #plan.place<@choices, 0>}, %x: tensor<16x40xbf16> {plan.place = #plan.place<@x, 0>},
                     %w: tensor<4x20x40xbf16> {plan.place = #plan.place<@w, 0>}) attributes {graph.entry = #graph.entry<microstep>} {
  %order, %places, %starts = graph.route %choices {plan.places = [#plan.place<@order, 0>, #plan.place<@places, 0>, #plan.place<@starts, 0>]}
    : tensor<16x2xi32> -> tensor<32xi32>, tensor<16x2xi32>, tensor<5xi32>
  %rows = graph.dispatch %x by %order, %places {plan.places = [#plan.place<@rows, 0>]} : tensor<16x40xbf16>, tensor<32xi32>, tensor<16x2xi32> -> tensor<32x40xbf16>
  %h = graph.grouped_matmul %rows, %w rows %starts {transpose_b, plan.places = [#plan.place<@h, 0>], plan.scratch = [#plan.place<@panels, 0>]}
    : tensor<32x40xbf16>, tensor<4x20x40xbf16>, tensor<5xi32> -> tensor<32x20xbf16>
  %back = graph.grouped_matmul %h, %w rows %starts {plan.places = [#plan.place<@back, 0>], plan.scratch = [#plan.place<@panels, 0>]}
    : tensor<32x20xbf16>, tensor<4x20x40xbf16>, tensor<5xi32> -> tensor<32x40xbf16>
  %dw = graph.grouped_outer %h, %rows rows %starts {plan.accumulate = [#plan.accumulate<add>], plan.places = [#plan.place<@dw, 0>], plan.scratch = [#plan.place<@panels, 0>]}
    : tensor<32x20xbf16>, tensor<32x40xbf16>, tensor<5xi32> -> tensor<4x20x40xf32>
  %y = graph.combine %back by %order, %places {plan.places = [#plan.place<@y, 0>]} : tensor<32x40xbf16>, tensor<32xi32>, tensor<16x2xi32> -> tensor<16x40xbf16>
  return
}
