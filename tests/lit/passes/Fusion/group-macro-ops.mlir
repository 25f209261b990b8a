// RUN: ztc-opt %s --ztc-group-macro-ops | FileCheck %s

// A macro op becomes a group with its decomposition inside; what a library runs stays.
// CHECK-LABEL: func.func @eval
// CHECK:         %[[Y:.*]] = graph.fusion "swiglu"(%{{.*}}, %{{.*}}) is macro
// CHECK-SAME:      : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> {
// CHECK-NEXT:    ^bb0(%[[A:.*]]: tensor<8x16xf32>, %[[B:.*]]: tensor<8x16xf32>):
// CHECK:           graph.sigmoid %[[A]]
// CHECK-NOT:       graph.swiglu
// CHECK:           graph.yield
// CHECK:         graph.matmul %[[Y]]
func.func @eval(%g: tensor<8x16xf32>, %u: tensor<8x16xf32>, %w: tensor<4x16xf32>) -> tensor<8x4xf32> attributes {graph.entry = #graph.entry<eval>} {
  %y = graph.swiglu %g, %u : tensor<8x16xf32>
  %z = graph.matmul %y, %w {transpose_b} : tensor<8x16xf32>, tensor<4x16xf32> -> tensor<8x4xf32>
  return %z : tensor<8x4xf32>
}

// A slice that nothing else reads comes with it; results that are parts of one matrix are written into its rows.
// CHECK-LABEL: func.func @slices
// CHECK:         %[[D:.*]] = graph.fusion "swiglu_grad"(%[[Y:.*]], %{{.*}}) {{.*}} : (tensor<8x32xf32>, tensor<8x16xf32>) -> tensor<8x32xf32> {
// CHECK:           graph.slice %{{.*}}, [0, 16]
// CHECK:           graph.concat
// CHECK-NEXT:      graph.yield
// CHECK:         graph.matmul %[[D]]
func.func @slices(%y: tensor<8x32xf32>, %ds: tensor<8x16xf32>, %w: tensor<32x4xf32>) -> tensor<8x4xf32> {
  %g = graph.slice %y, [0, 0] : tensor<8x32xf32> -> tensor<8x16xf32>
  %u = graph.slice %y, [0, 16] : tensor<8x32xf32> -> tensor<8x16xf32>
  %dg, %du = graph.swiglu_grad %g, %u, %ds : tensor<8x16xf32>
  %dy = graph.concat %dg, %du axis 1 : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x32xf32>
  %z = graph.matmul %dy, %w : tensor<8x32xf32>, tensor<32x4xf32> -> tensor<8x4xf32>
  return %z : tensor<8x4xf32>
}

// What the residual stream's cotangent is added to is not stored.
// CHECK-LABEL: func.func @residual
// CHECK:         %[[R:.*]]:2 = graph.fusion "rms_norm_grad_add"
// CHECK:           %[[DX:.*]] = graph.sub
// CHECK:           %[[SUM:.*]] = graph.add %{{.*}}, %[[DX]]
// CHECK:           graph.yield {{.*}}%[[SUM]]
// CHECK:         return %[[R]]
func.func @residual(%x: tensor<8x16xf32>, %w: tensor<16xf32>, %dy: tensor<8x16xf32>, %d: tensor<8x16xf32>, %slot: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>) {
  %dx, %dw = graph.rms_norm_grad %x, %w, %dy, 1.0e-5 : tensor<8x16xf32>, tensor<16xf32>
  %a = graph.accumulate %slot, %dw {first_writes} : tensor<16xf32>
  %s = graph.add %d, %dx : tensor<8x16xf32>
  return %s, %a : tensor<8x16xf32>, tensor<16xf32>
}
