// RUN: ztc-opt %s --ztc-order-steps --ztc-verify-schedule | FileCheck %s

// The weight's gradient moves up to its operands, its accumulate after it; views move down to their readers.
// CHECK-LABEL: func.func @microstep
// CHECK:         %[[DY:.*]] = graph.fusion "exp"
// CHECK-NEXT:      ^bb0
// CHECK:         %[[DW:.*]] = graph.matmul %{{.*}}, %[[DY]] {transpose_a}
// CHECK-NEXT:    %[[V:.*]] = dist.view %{{.*}}[16]
// CHECK-NEXT:    %[[S:.*]] = graph.accumulate %[[V]], %[[DW]] {first_writes}
// CHECK-NEXT:    %[[W:.*]] = dist.view %{{.*}}[0]
// CHECK-NEXT:    %[[DX:.*]] = graph.matmul %[[DY]], %[[W]]
// CHECK-NEXT:    return %[[DX]], %[[S]]
func.func @microstep(%bucket: tensor<32xf32>, %gradient: tensor<32xf32>, %x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %w = dist.view %bucket[0] : tensor<32xf32> -> tensor<4x4xf32>
  %v = dist.view %gradient[16] : tensor<32xf32> -> tensor<4x4xf32>
  %dy = graph.fusion "exp"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>):
    %e = graph.exp %a : tensor<4x4xf32>
    graph.yield %e : tensor<4x4xf32>
  }
  %dx = graph.matmul %dy, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %dw = graph.matmul %x, %dy {transpose_a} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %s = graph.accumulate %v, %dw {first_writes} : tensor<4x4xf32>
  return %dx, %s : tensor<4x4xf32>, tensor<4x4xf32>
}
