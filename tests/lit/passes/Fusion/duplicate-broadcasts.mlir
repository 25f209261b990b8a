// RUN: ztc-opt %s --ztc-duplicate-broadcasts --ztc-group-primitive-ops | FileCheck %s

// The repeated mask is not stored: what is, is the row.
// CHECK-LABEL: func.func @two_readers(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x16xf32>, %[[M:[^:]*]]: tensor<1x16xf32>
// CHECK:         graph.fusion "broadcast_mul"(%[[M]], %[[X]])
// CHECK:         graph.fusion "broadcast_add"(%[[M]], %[[X]])
func.func @two_readers(%x: tensor<8x16xf32>, %m: tensor<1x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %w = graph.broadcast %m : tensor<1x16xf32> -> tensor<8x16xf32>
  %y = graph.mul %x, %w : tensor<8x16xf32>
  %z = graph.add %x, %w : tensor<8x16xf32>
  return %y, %z : tensor<8x16xf32>, tensor<8x16xf32>
}
