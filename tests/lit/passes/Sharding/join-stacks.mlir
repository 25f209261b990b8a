// RUN: ztc-opt %s --ztc-join-stacks --split-input-file | FileCheck %s

// Neighbours that are read as one are one view, and their gradients, the rows of one in order, are added in one place.
// CHECK-LABEL: func.func @microstep
// CHECK:         %[[W:.*]] = dist.view %{{.*}}[32] : tensor<128xf32> -> tensor<16x4xf32>
// CHECK-NOT:     graph.concat
// CHECK:         graph.reshape %[[W]] : tensor<16x4xf32> -> tensor<2x8x4xf32>
// CHECK-NOT:     graph.slice
// CHECK:         %[[PLACE:.*]] = dist.view %{{.*}}[32] : tensor<128xf32> -> tensor<16x4xf32>
// CHECK:         %[[SUM:.*]] = graph.accumulate %[[PLACE]], %{{.*}} {first_writes} : tensor<16x4xf32>
// CHECK:         dist.pack %{{.*}}, %[[SUM]] at [0, 32]
func.func @microstep(%b: tensor<128xf32>, %g: tensor<128xf32>, %dw: tensor<2x8x4xf32>, %dv: tensor<4x4xf32>) -> (tensor<2x8x4xf32>, tensor<128xf32>) {
  %w0 = dist.view %b[32] : tensor<128xf32> -> tensor<8x4xf32>
  %w1 = dist.view %b[64] : tensor<128xf32> -> tensor<8x4xf32>
  %w = graph.concat %w0, %w1 axis 0 : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<16x4xf32>
  %stack = graph.reshape %w : tensor<16x4xf32> -> tensor<2x8x4xf32>
  %flat = graph.reshape %dw : tensor<2x8x4xf32> -> tensor<16x4xf32>
  %d0 = graph.slice %flat, [0, 0] : tensor<16x4xf32> -> tensor<8x4xf32>
  %d1 = graph.slice %flat, [8, 0] : tensor<16x4xf32> -> tensor<8x4xf32>
  %gv = dist.view %g[0] : tensor<128xf32> -> tensor<4x4xf32>
  %g0 = dist.view %g[32] : tensor<128xf32> -> tensor<8x4xf32>
  %g1 = dist.view %g[64] : tensor<128xf32> -> tensor<8x4xf32>
  %sv = graph.accumulate %gv, %dv {first_writes} : tensor<4x4xf32>
  %s0 = graph.accumulate %g0, %d0 {first_writes} : tensor<8x4xf32>
  %s1 = graph.accumulate %g1, %d1 {first_writes} : tensor<8x4xf32>
  %p = dist.pack %sv, %s0, %s1 at [0, 32, 64] : tensor<4x4xf32>, tensor<8x4xf32>, tensor<8x4xf32> -> tensor<128xf32>
  return %stack, %p : tensor<2x8x4xf32>, tensor<128xf32>
}

// -----

// A gap between two of them, or gradients in another order: nothing changes.
// CHECK-LABEL: func.func @microstep
// CHECK:         graph.concat
// CHECK:         dist.pack %{{.*}}, %{{.*}} at [0, 40]
func.func @microstep(%b: tensor<128xf32>, %g: tensor<128xf32>, %dw: tensor<16x4xf32>) -> (tensor<16x4xf32>, tensor<128xf32>) {
  %w0 = dist.view %b[0] : tensor<128xf32> -> tensor<8x4xf32>
  %w1 = dist.view %b[40] : tensor<128xf32> -> tensor<8x4xf32>
  %w = graph.concat %w0, %w1 axis 0 : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<16x4xf32>
  %d0 = graph.slice %dw, [8, 0] : tensor<16x4xf32> -> tensor<8x4xf32>
  %d1 = graph.slice %dw, [0, 0] : tensor<16x4xf32> -> tensor<8x4xf32>
  %g0 = dist.view %g[0] : tensor<128xf32> -> tensor<8x4xf32>
  %g1 = dist.view %g[40] : tensor<128xf32> -> tensor<8x4xf32>
  %s0 = graph.accumulate %g0, %d0 {first_writes} : tensor<8x4xf32>
  %s1 = graph.accumulate %g1, %d1 {first_writes} : tensor<8x4xf32>
  %p = dist.pack %s0, %s1 at [0, 40] : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<128xf32>
  return %w, %p : tensor<16x4xf32>, tensor<128xf32>
}
