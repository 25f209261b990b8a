// A product that gives GELU has the rounded sums, where they are wanted, as its last operand, after the bias.
// RUN: ztc-opt %s --ztc-convert-to-plan | FileCheck %s

dist.mesh @mesh ["data"]
plan.slot @x activations constant 16 x bf16 {element_bytes = 2 : i64}
plan.slot @w activations constant 32 x bf16 {element_bytes = 2 : i64}
plan.slot @v activations constant 8 x bf16 {element_bytes = 2 : i64}
plan.slot @y activations constant 32 x bf16 {element_bytes = 2 : i64}
plan.slot @s activations constant 32 x bf16 {element_bytes = 2 : i64}
plan.slot @panels workspace per_thread 64 x f32 {element_bytes = 4 : i64}

// CHECK:      plan.program @microstep
// CHECK-NEXT:   plan.gemm "matmul" [#plan.operand<read @x, 0, 32>, #plan.operand<read @w, 0, 64>, #plan.operand<write @y, 0, 64>, #plan.operand<write @panels, 0, 0>, #plan.operand<read @v, 0, 16>, #plan.operand<write @s, 0, 64>]
// CHECK-SAME:     bias
// CHECK-SAME:     gelu
// CHECK-NEXT:   plan.gemm "matmul 2" [#plan.operand<read @x, 0, 32>, #plan.operand<read @w, 0, 64>, #plan.operand<write @y, 0, 64>, #plan.operand<write @panels, 0, 0>, #plan.operand<read @v, 0, 16>]
// CHECK-SAME:     gelu
func.func @microstep(%x: tensor<4x4xbf16> {plan.place = #plan.place<@x, 0>}, %w: tensor<8x4xbf16> {plan.place = #plan.place<@w, 0>},
                     %v: tensor<8xbf16> {plan.place = #plan.place<@v, 0>}) attributes {graph.entry = #graph.entry<microstep>} {
  %y, %s = graph.matmul_gelu %x, %w, %v {plan.places = [#plan.place<@y, 0>, #plan.place<@s, 0>], plan.scratch = [#plan.place<@panels, 0>], transpose_b}
    : tensor<4x4xbf16>, tensor<8x4xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>, tensor<4x8xbf16>
  %z = graph.matmul_gelu %x, %w, %v {plan.places = [#plan.place<@y, 0>], plan.scratch = [#plan.place<@panels, 0>], transpose_b}
    : tensor<4x4xbf16>, tensor<8x4xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
  return
}
