// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(z-loss{weight=0.25})' %s | FileCheck %s

// The loss keeps its value; the term is added, of the counted rows alone.
// CHECK-LABEL: func.func @eval
// CHECK-NOT:     graph.linear_cross_entropy
// CHECK:         %[[LOGITS:.*]] = graph.matmul %{{.*}}, %{{.*}} {transpose_b}
// CHECK:         %[[LOSS:.*]] = graph.cross_entropy %[[LOGITS]]
// CHECK:         graph.reduce_max %[[LOGITS]]
// CHECK:         graph.log
// CHECK:         graph.compare
// CHECK:         graph.select
// CHECK:         graph.reduce_sum
// CHECK:         dense<2.500000e-01>
// CHECK:         %[[SUM:.*]] = graph.add %[[LOSS]]
// CHECK:         return %[[SUM]]
func.func @eval(%hidden: tensor<4x8xf32>, %head: tensor<16x8xf32>, %targets: tensor<4xi32>) -> tensor<f32> attributes {graph.entry = #graph.entry<eval>} {
  %loss = graph.linear_cross_entropy %hidden, %head, %targets : tensor<4x8xf32>, tensor<16x8xf32>, tensor<4xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
