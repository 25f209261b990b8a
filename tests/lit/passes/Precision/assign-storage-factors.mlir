// Products with f32 factors, as linear attention has them: nothing is rounded for them. What is stored narrow, as it has several readers, is widened again before
// anything moves it, in a cast that is marked with them.
// RUN: ztc-opt %s --ztc-assign-storage=precision=bf16 --ztc-verify-precision | FileCheck %s

// CHECK-LABEL: func.func @eval(
// CHECK:         %[[CENTRED:.*]] = graph.sub
// CHECK:         %[[STORED:.*]] = graph.cast %[[CENTRED]] : tensor<6x4xf32> -> tensor<6x4xbf16>
// CHECK:         %[[AGAIN:.*]] = graph.cast %[[STORED]] {graph.wide} : tensor<6x4xbf16> -> tensor<6x4xf32>
// CHECK:         %[[TURNED:.*]] = graph.transpose %[[AGAIN]], [1, 0] {graph.wide} : tensor<6x4xf32> -> tensor<4x6xf32>
// CHECK:         %[[OTHER:.*]] = graph.cast %[[STORED]] {graph.wide} : tensor<6x4xbf16> -> tensor<6x4xf32>
// CHECK:         graph.matmul %[[TURNED]], %[[OTHER]] {graph.wide, graph.wide_factors} : tensor<4x6xf32>, tensor<6x4xf32> -> tensor<4x4xf32>
func.func @eval(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<4xi32> {graph.role = #graph.role<targets>},
                %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %sum = graph.reduce_sum %x, [1] : tensor<6x4xf32> -> tensor<6x1xf32>
  %wide = graph.broadcast %sum : tensor<6x1xf32> -> tensor<6x4xf32>
  %centred = graph.sub %x, %wide : tensor<6x4xf32>
  %turned = graph.transpose %centred, [1, 0] {graph.wide} : tensor<6x4xf32> -> tensor<4x6xf32>
  %state = graph.matmul %turned, %centred {graph.wide, graph.wide_factors} : tensor<4x6xf32>, tensor<6x4xf32> -> tensor<4x4xf32>
  %loss = graph.linear_cross_entropy %state, %e, %targets : tensor<4x4xf32>, tensor<7x4xf32>, tensor<4xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
