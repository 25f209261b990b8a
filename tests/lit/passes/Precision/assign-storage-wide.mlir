// What the graph marks as wide is f32 and is not rounded where it is stored: a router's scores. The product reads narrow operands; a parameter that is marked
// is f32, and so is all that reads it.
// RUN: ztc-opt %s --ztc-assign-storage=precision=bf16 --ztc-verify-precision | FileCheck %s

// CHECK:       func.func @eval(
// CHECK-SAME:  %[[NARROW:[a-z0-9]+]]: tensor<4x4xbf16> {graph.name = "r"
// CHECK-SAME:  %[[WIDE:[a-z0-9]+]]: tensor<4x4xf32> {graph.name = "g"
// CHECK:       %[[X:.*]] = graph.embedding
// CHECK:       %[[SCORES:.*]] = graph.matmul %[[X]], %[[NARROW]] {graph.wide, transpose_b} : tensor<6x4xbf16>, tensor<4x4xbf16> -> tensor<6x4xf32>
// CHECK:       graph.sigmoid %[[SCORES]] {graph.wide} : tensor<6x4xf32>
// CHECK:       graph.matmul %{{.*}}, %[[WIDE]] {graph.wide, transpose_b} : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
// CHECK:       graph.matmul %[[X]], %{{.*}} {transpose_b} : tensor<6x4xbf16>, tensor<4x4xbf16> -> tensor<6x4xbf16>
func.func @eval(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e"},
                %r: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.name = "r"},
                %g: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.name = "g", graph.wide},
                %p: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.name = "p"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %scores = graph.matmul %x, %r {transpose_b, graph.wide} : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %shares = graph.sigmoid %scores {graph.wide} : tensor<6x4xf32>
  %other = graph.matmul %x, %g {transpose_b, graph.wide} : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %sum = graph.add %shares, %other {graph.wide} : tensor<6x4xf32>
  %y = graph.matmul %x, %p {transpose_b} : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %z = graph.mul %y, %sum : tensor<6x4xf32>
  %loss = graph.linear_cross_entropy %z, %e, %tokens : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
