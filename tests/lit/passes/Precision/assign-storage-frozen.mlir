// A vector that is not trained stays f32, for it has no master copy that an export could write; a matrix is stored narrow.
// RUN: ztc-opt %s --ztc-assign-storage=precision=bf16 --ztc-verify-precision | FileCheck %s

// CHECK:       func.func @eval(
// CHECK-SAME:  %{{[a-z0-9]+}}: tensor<7x4xbf16> {graph.frozen, graph.name = "e"
// CHECK-SAME:  %[[BIAS:[a-z0-9]+]]: tensor<4xf32> {graph.frozen, graph.name = "b"
// CHECK-SAME:  %{{[a-z0-9]+}}: tensor<4xbf16> {graph.name = "t"
// CHECK:       graph.cast %[[BIAS]] : tensor<4xf32> -> tensor<4xbf16>
func.func @eval(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e", graph.frozen},
                %b: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "b", graph.frozen},
                %t: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "t"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %c = graph.add %b, %t : tensor<4xf32>
  %n = graph.rms_norm %x, %c, 1.0e-5 : tensor<6x4xf32>, tensor<4xf32>
  %w = graph.broadcast %b : tensor<4xf32> -> tensor<6x4xf32>
  %y = graph.add %n, %w : tensor<6x4xf32>
  %loss = graph.linear_cross_entropy %y, %e, %tokens : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
