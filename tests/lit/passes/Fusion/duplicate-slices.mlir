// RUN: ztc-opt %s --ztc-duplicate-slices --split-input-file | FileCheck %s

// Both parts are kept for backward: each reader slices for itself, and only the whole is stored.
// CHECK-LABEL: func.func @microstep
// CHECK:         %[[G:.*]] = graph.slice %[[Y:.*]], [0, 0]
// CHECK:         %[[U:.*]] = graph.slice %[[Y]], [0, 16]
// CHECK:         graph.swiglu %[[G]], %[[U]]
// CHECK:         graph.linear_cross_entropy
// CHECK:         %[[G1:.*]] = graph.slice %[[Y]], [0, 0]
// CHECK:         %[[U1:.*]] = graph.slice %[[Y]], [0, 16]
// CHECK:         graph.swiglu_grad %[[G1]], %[[U1]]
// CHECK:         %[[B:.*]] = graph.recompute_barrier %[[Y]] after
// CHECK:         %[[G2:.*]] = graph.slice %[[B]], [0, 0]
// CHECK:         graph.exp %[[G2]]
func.func @microstep(%y: tensor<8x32xf32>, %h: tensor<5x16xf32>, %t: tensor<8xi32>, %scale: tensor<f32>)
    -> (tensor<f32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<5x16xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %z = graph.exp %y : tensor<8x32xf32>
  %g = graph.slice %z, [0, 0] : tensor<8x32xf32> -> tensor<8x16xf32>
  %u = graph.slice %z, [0, 16] : tensor<8x32xf32> -> tensor<8x16xf32>
  %s = graph.swiglu %g, %u : tensor<8x16xf32>
  %loss, %ds, %dh = graph.linear_cross_entropy %s, %h, %t scale %scale : tensor<f32> : tensor<8x16xf32>, tensor<5x16xf32>, tensor<8xi32> -> tensor<f32>, tensor<8x16xf32> and tensor<5x16xf32>
  %dg, %du = graph.swiglu_grad %g, %u, %ds : tensor<8x16xf32>
  %gb = graph.recompute_barrier %g after %dg : tensor<8x16xf32>, tensor<8x16xf32>
  %again = graph.exp %gb : tensor<8x16xf32>
  return %loss, %again, %du, %dh : tensor<f32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<5x16xf32>
}

// -----

// Only one part is kept: it is stored, not all of the value.
// CHECK-LABEL: func.func @microstep
// CHECK-COUNT-2: graph.slice
// CHECK-NOT:     graph.slice
func.func @microstep(%y: tensor<8x32xf32>, %h: tensor<5x16xf32>, %t: tensor<8xi32>, %scale: tensor<f32>)
    -> (tensor<f32>, tensor<8x16xf32>, tensor<5x16xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %z = graph.exp %y : tensor<8x32xf32>
  %g = graph.slice %z, [0, 0] : tensor<8x32xf32> -> tensor<8x16xf32>
  %u = graph.slice %z, [0, 16] : tensor<8x32xf32> -> tensor<8x16xf32>
  %s = graph.add %g, %u : tensor<8x16xf32>
  %loss, %ds, %dh = graph.linear_cross_entropy %s, %h, %t scale %scale : tensor<f32> : tensor<8x16xf32>, tensor<5x16xf32>, tensor<8xi32> -> tensor<f32>, tensor<8x16xf32> and tensor<5x16xf32>
  %dg = graph.mul %g, %ds : tensor<8x16xf32>
  return %loss, %dg, %dh : tensor<f32>, tensor<8x16xf32>, tensor<5x16xf32>
}

// -----

// What backward reads is nearly all of the value: the whole is kept, and read where it lies.
// CHECK-LABEL: func.func @microstep
// CHECK:         %[[U:.*]] = graph.slice %[[Y:.*]], [0, 30]
// CHECK:         graph.broadcast %[[U]]
// CHECK:         %[[G:.*]] = graph.slice %[[Y]], [0, 0]
// CHECK:         graph.add %[[G]],
// CHECK:         graph.linear_cross_entropy
// CHECK:         %[[G1:.*]] = graph.slice %[[Y]], [0, 0]
// CHECK:         graph.mul %[[G1]],
func.func @microstep(%y: tensor<8x31xf32>, %h: tensor<5x30xf32>, %t: tensor<8xi32>, %scale: tensor<f32>)
    -> (tensor<f32>, tensor<8x30xf32>, tensor<5x30xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %z = graph.exp %y : tensor<8x31xf32>
  %g = graph.slice %z, [0, 0] : tensor<8x31xf32> -> tensor<8x30xf32>
  %u = graph.slice %z, [0, 30] : tensor<8x31xf32> -> tensor<8x1xf32>
  %b = graph.broadcast %u : tensor<8x1xf32> -> tensor<8x30xf32>
  %s = graph.add %g, %b : tensor<8x30xf32>
  %loss, %ds, %dh = graph.linear_cross_entropy %s, %h, %t scale %scale : tensor<f32> : tensor<8x30xf32>, tensor<5x30xf32>, tensor<8xi32> -> tensor<f32>, tensor<8x30xf32> and tensor<5x30xf32>
  %dg = graph.mul %g, %ds : tensor<8x30xf32>
  return %loss, %dg, %dh : tensor<f32>, tensor<8x30xf32>, tensor<5x30xf32>
}
