// RUN: ztc-opt %s --ztc-fold-empty-tensors | FileCheck %s

// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    %[[K:.*]]: tensor<1x8x4xf32>
// CHECK-DAG:     %[[SUM:.*]] = graph.constant dense<0.000000e+00> : tensor<1x1xf32>
// CHECK-DAG:     %[[MAX:.*]] = graph.constant dense<0xFF800000> : tensor<1x1xf32>
// CHECK-DAG:     %[[PRODUCT:.*]] = graph.constant dense<0.000000e+00> : tensor<2x3xf32>
// CHECK-DAG:     %[[NONE:.*]] = graph.constant dense<> : tensor<1x0x4xf32>
// CHECK:         return %[[K]], %[[SUM]], %[[MAX]], %[[PRODUCT]], %[[NONE]]
func.func @forward(%k: tensor<1x8x4xf32>, %past: tensor<1x0x4xf32>, %a: tensor<2x0xf32>, %b: tensor<0x3xf32>)
    -> (tensor<1x8x4xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<2x3xf32>, tensor<1x0x4xf32>) attributes {graph.entry = #graph.entry<forward>} {
  %scaled = graph.neg %past : tensor<1x0x4xf32>
  %y = graph.concat %scaled, %k axis 1 : tensor<1x0x4xf32>, tensor<1x8x4xf32> -> tensor<1x8x4xf32>
  %sum = graph.reduce_sum %a, [0, 1] : tensor<2x0xf32> -> tensor<1x1xf32>
  %max = graph.reduce_max %a, [0, 1] : tensor<2x0xf32> -> tensor<1x1xf32>
  %product = graph.matmul %a, %b : tensor<2x0xf32>, tensor<0x3xf32> -> tensor<2x3xf32>
  return %y, %sum, %max, %product, %scaled : tensor<1x8x4xf32>, tensor<1x1xf32>, tensor<1x1xf32>, tensor<2x3xf32>, tensor<1x0x4xf32>
}
