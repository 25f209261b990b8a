// RUN: ztc-opt %s --ztc-narrow-indices | FileCheck %s

// CHECK-LABEL: func.func @forward(
// CHECK:         %[[I:.*]] = graph.cast %{{.*}} : tensor<3xi64> -> tensor<3xi32>
// CHECK-NEXT:    graph.embedding %{{.*}}, %[[I]] : tensor<5x4xf32>, tensor<3xi32> -> tensor<3x4xf32>
// CHECK-NEXT:    graph.embedding %{{.*}}, %{{.*}} : tensor<5x4xf32>, tensor<3xi32>
// CHECK:         graph.embedding_grad %{{.*}}, %{{.*}} : tensor<3xi32>, tensor<3x4xf32> -> tensor<7x4xf32>
func.func @forward(%t: tensor<5x4xf32>, %i: tensor<3xi64>, %j: tensor<3xi32>) -> (tensor<3x4xf32>, tensor<7x4xf32>) attributes {graph.entry = #graph.entry<forward>} {
  %x = graph.embedding %t, %i : tensor<5x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  %y = graph.embedding %t, %j : tensor<5x4xf32>, tensor<3xi32> -> tensor<3x4xf32>
  %z = graph.embedding_grad %i, %y : tensor<3xi64>, tensor<3x4xf32> -> tensor<7x4xf32>
  return %x, %z : tensor<3x4xf32>, tensor<7x4xf32>
}
