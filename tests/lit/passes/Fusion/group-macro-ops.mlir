// RUN: ztc-opt %s --ztc-group-macro-ops | FileCheck %s

// A macro op becomes a group with its decomposition inside; what a library runs stays.
// CHECK-LABEL: func.func @eval
// CHECK:         %[[Y:.*]] = graph.fusion "swiglu"(%{{.*}}, %{{.*}}) attributes {reason = "macro op, one kernel"}
// CHECK-SAME:      : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<8x16xf32>, %[[B:.*]]: tensor<8x16xf32>):
// CHECK:           graph.sigmoid %[[A]]
// CHECK-NOT:       graph.swiglu
// CHECK:           graph.yield
// CHECK:         graph.matmul %[[Y]]
func.func @eval(%g: tensor<8x16xf32>, %u: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> {
  %y = graph.swiglu %g, %u : tensor<8x16xf32>
  %z = graph.matmul %y, %w {transpose_b} : tensor<8x16xf32>, tensor<4x16xf32> -> tensor<8x4xf32>
  return %z : tensor<8x4xf32>
}
