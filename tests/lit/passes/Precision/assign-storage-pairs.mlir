// A row that was taken apart into columns of one is an activation like the row; what a reduction leaves of a row is a statistic.
// RUN: ztc-opt %s --ztc-assign-storage=precision=bf16 --ztc-verify-precision -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @eval(
// CHECK:         %[[TURNED:.*]] = graph.mul %{{.*}}, %{{.*}} : tensor<6x2x1xf32>
// CHECK:         graph.cast %[[TURNED]] : tensor<6x2x1xf32> -> tensor<6x2x1xbf16>
// CHECK:         graph.linear_cross_entropy
func.func @eval(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %pairs = graph.reshape %x : tensor<6x4xf32> -> tensor<6x2x2xf32>
  %a = graph.slice %pairs, [0, 0, 0] : tensor<6x2x2xf32> -> tensor<6x2x1xf32>
  %b = graph.slice %pairs, [0, 0, 1] : tensor<6x2x2xf32> -> tensor<6x2x1xf32>
  %cosine = graph.constant dense<0.3> : tensor<6x2x1xf32>
  %turned = graph.mul %a, %cosine : tensor<6x2x1xf32>
  %first = graph.add %turned, %b : tensor<6x2x1xf32>
  %second = graph.sub %turned, %b : tensor<6x2x1xf32>
  %both = graph.concat %first, %second axis 2 : tensor<6x2x1xf32>, tensor<6x2x1xf32> -> tensor<6x2x2xf32>
  %y = graph.reshape %both : tensor<6x2x2xf32> -> tensor<6x4xf32>
  %loss = graph.linear_cross_entropy %y, %e, %tokens : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @eval(
// CHECK:         %[[SUM:.*]] = graph.reduce_sum %{{.*}}, [1] : tensor<6x4xbf16> -> tensor<6x1xf32>
// CHECK:         %[[SCALED:.*]] = graph.mul %[[SUM]], %{{.*}} : tensor<6x1xf32>
// CHECK-NOT:     tensor<6x1xbf16>
// CHECK:         graph.linear_cross_entropy
func.func @eval(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %sum = graph.reduce_sum %x, [1] : tensor<6x4xf32> -> tensor<6x1xf32>
  %third = graph.constant dense<0.3> : tensor<6x1xf32>
  %scaled = graph.mul %sum, %third : tensor<6x1xf32>
  %wide = graph.broadcast %scaled : tensor<6x1xf32> -> tensor<6x4xf32>
  %shifted = graph.add %x, %wide : tensor<6x4xf32>
  %again = graph.mul %shifted, %wide : tensor<6x4xf32>
  %loss = graph.linear_cross_entropy %again, %e, %tokens : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
