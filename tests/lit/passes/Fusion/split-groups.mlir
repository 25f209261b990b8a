// RUN: ztc-opt %s --ztc-group-macro-ops --ztc-group-primitive-ops --ztc-split-groups | FileCheck %s

// One op a group; constants go where they are read.
// CHECK-LABEL: func.func @eval
// CHECK:         %[[S:.*]] = graph.fusion "sigmoid"(%[[G:.*]]) is split
// CHECK:           graph.sigmoid
// CHECK:         %[[P:.*]] = graph.fusion "mul"(%[[G]], %[[S]])
// CHECK:         %[[Y:.*]] = graph.fusion "mul"(%[[P]], %{{.*}})
// CHECK-NOT:     graph.constant
// CHECK:         graph.fusion "mul"(%[[Y]])
// CHECK:           graph.constant
// CHECK:           graph.mul
func.func @eval(%g: tensor<8x16xf32>, %u: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {graph.entry = #graph.entry<eval>} {
  %c = graph.constant dense<0.5> : tensor<8x16xf32>
  %y = graph.swiglu %g, %u : tensor<8x16xf32>
  %z = graph.mul %y, %c : tensor<8x16xf32>
  return %z : tensor<8x16xf32>
}
