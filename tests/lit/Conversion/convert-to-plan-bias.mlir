// A product that adds a bias has it as its last operand, after the scratch and a matrix that it adds.
// RUN: ztc-opt %s --ztc-convert-to-plan | FileCheck %s

dist.mesh @mesh ["data"]
plan.slot @x activations constant 16 x bf16 {element_bytes = 2 : i64}
plan.slot @w activations constant 24 x bf16 {element_bytes = 2 : i64}
plan.slot @v activations constant 6 x bf16 {element_bytes = 2 : i64}
plan.slot @r activations constant 24 x bf16 {element_bytes = 2 : i64}
plan.slot @y activations constant 24 x bf16 {element_bytes = 2 : i64}
plan.slot @z activations constant 24 x bf16 {element_bytes = 2 : i64}
plan.slot @panels workspace per_thread 64 x f32 {element_bytes = 4 : i64}

// CHECK:      plan.program @microstep
// CHECK-NEXT:   plan.gemm "matmul" [#plan.operand<read @x, 0, 32>, #plan.operand<read @w, 0, 48>, #plan.operand<write @y, 0, 48>, #plan.operand<write @panels, 0, 0>, #plan.operand<read @v, 0, 12>]
// CHECK-SAME:     bias
// CHECK-SAME:     type_a = bf16, type_c = bf16
// CHECK-NEXT:   plan.gemm "matmul 2" [#plan.operand<read @x, 0, 32>, #plan.operand<read @w, 0, 48>, #plan.operand<write @z, 0, 48>, #plan.operand<write @panels, 0, 0>, #plan.operand<read @r, 0, 48>, #plan.operand<read @v, 0, 12>]
// CHECK-SAME:     bias
func.func @microstep(%x: tensor<4x4xbf16> {plan.place = #plan.place<@x, 0>}, %w: tensor<6x4xbf16> {plan.place = #plan.place<@w, 0>},
                     %v: tensor<6xbf16> {plan.place = #plan.place<@v, 0>}, %r: tensor<4x6xbf16> {plan.place = #plan.place<@r, 0>}) attributes {graph.entry = #graph.entry<microstep>} {
  %y = graph.matmul_bias %x, %w, %v {plan.places = [#plan.place<@y, 0>], plan.scratch = [#plan.place<@panels, 0>], transpose_b}
    : tensor<4x4xbf16>, tensor<6x4xbf16>, tensor<6xbf16> -> tensor<4x6xbf16>
  %z = graph.matmul_add %x, %w, %r bias %v : tensor<6xbf16> {plan.places = [#plan.place<@z, 0>], plan.scratch = [#plan.place<@panels, 0>], transpose_b}
    : tensor<4x4xbf16>, tensor<6x4xbf16>, tensor<4x6xbf16>
  return
}
