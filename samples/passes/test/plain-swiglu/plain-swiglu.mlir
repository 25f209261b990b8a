// RUN: ztc-opt %s --ztc-apply-patterns=file=%S/../../PlainSwiglu.pdll | FileCheck %s

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[GATE:.*]]: tensor<4x8xf32>, %[[UP:.*]]: tensor<4x8xf32>
// CHECK: %[[OPEN:.*]] = graph.sigmoid %[[GATE]]
// CHECK: %[[SILU:.*]] = graph.mul %[[GATE]], %[[OPEN]]
// CHECK: graph.mul %[[SILU]], %[[UP]]
// CHECK-NOT: graph.swiglu
func.func @forward(%gate: tensor<4x8xf32>, %up: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = graph.swiglu %gate, %up : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
