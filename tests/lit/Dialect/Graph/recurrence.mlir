// The ops whose positions are bound by a state, as they are printed.
// RUN: ztc-opt %s | ztc-opt | FileCheck %s

// CHECK-LABEL: func @linear_attention
func.func @linear_attention(%q: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>, %g: tensor<1x8x2x1xf32>, %s: tensor<1x2x16x4xf32>, %d: tensor<1x8xi32>)
    -> (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>) {
  // CHECK: graph.linear_attention %{{.*}}, %{{.*}}, %{{.*}}, 2.500000e-01 decay %{{.*}} : tensor<1x8x2x1xf32> beta %{{.*}} : tensor<1x8x2x1xf32> past %{{.*}} : tensor<1x2x16x4xf32> {chunk = 4 : i64, delta} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  %y, %t = graph.linear_attention %q, %q, %v, 2.5e-01 decay %g : tensor<1x8x2x1xf32> beta %g : tensor<1x8x2x1xf32> past %s : tensor<1x2x16x4xf32> {chunk = 4 : i64, delta}
    : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  // CHECK: graph.linear_attention %{{.*}}, %{{.*}}, %{{.*}}, 1.000000e+00 within %{{.*}} : tensor<1x8xi32> {chunk = 4 : i64} : tensor<1x8x2x16xf32>
  %z, %u = graph.linear_attention %q, %q, %v, 1.0 within %d : tensor<1x8xi32> {chunk = 4 : i64}
    : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return %y, %z : tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>
}

// CHECK-LABEL: func @causal_convolution
func.func @causal_convolution(%x: tensor<1x8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<16xf32>, %p: tensor<1x3x16xf32>, %d: tensor<1x8xi32>)
    -> (tensor<1x8x16xf32>, tensor<1x8x16xf32>) {
  // CHECK: graph.causal_convolution %{{.*}}, %{{.*}} bias %{{.*}} : tensor<16xf32> past %{{.*}} : tensor<1x3x16xf32> : tensor<1x8x16xf32>, tensor<16x4xf32>
  %y = graph.causal_convolution %x, %w bias %b : tensor<16xf32> past %p : tensor<1x3x16xf32> : tensor<1x8x16xf32>, tensor<16x4xf32>
  // CHECK: graph.causal_convolution %{{.*}}, %{{.*}} within %{{.*}} : tensor<1x8xi32> : tensor<1x8x16xf32>, tensor<16x4xf32>
  %z = graph.causal_convolution %x, %w within %d : tensor<1x8xi32> : tensor<1x8x16xf32>, tensor<16x4xf32>
  return %y, %z : tensor<1x8x16xf32>, tensor<1x8x16xf32>
}

// CHECK-LABEL: func @causal_filter
func.func @causal_filter(%x: tensor<1x8x16xbf16>, %t: tensor<2x16xbf16>, %b: tensor<16xf32>, %d: tensor<1x8xi32>) -> (tensor<1x8x16xbf16>, tensor<16xf32>) {
  // CHECK: graph.causal_filter %{{.*}} by %{{.*}} : tensor<2x16xbf16> bias %{{.*}} : tensor<16xf32> within %{{.*}} : tensor<1x8xi32> : tensor<1x8x16xbf16>
  %y = graph.causal_filter %x by %t : tensor<2x16xbf16> bias %b : tensor<16xf32> within %d : tensor<1x8xi32> : tensor<1x8x16xbf16>
  // CHECK: graph.causal_filter_grad %{{.*}} by %{{.*}} : tensor<2x16xbf16> cotangent %{{.*}} within %{{.*}} : tensor<1x8xi32> {bias} : tensor<1x8x16xbf16> -> tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
  %dx, %s:3 = graph.causal_filter_grad %x by %t : tensor<2x16xbf16> cotangent %y within %d : tensor<1x8xi32> {bias} : tensor<1x8x16xbf16> -> tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
  return %dx, %s#0 : tensor<1x8x16xbf16>, tensor<16xf32>
}

// CHECK-LABEL: func @state_passing
func.func @state_passing(%t: tensor<8x4x16xf32>, %u: tensor<8x4x5xf32>, %f: tensor<8x1x5xf32>, %e: tensor<8x16x5xf32>, %p: tensor<2x16x5xf32>)
    -> (tensor<8x16x5xf32>, tensor<2x16x5xf32>) {
  // CHECK: graph.state_passing to %{{.*}} : tensor<8x4x16xf32> from %{{.*}} : tensor<8x4x16xf32> update %{{.*}} : tensor<8x4x5xf32> plus %{{.*}} : tensor<8x16x5xf32> decay %{{.*}} : tensor<8x1x5xf32> past %{{.*}} : tensor<2x16x5xf32> {chunks = 4 : i64, reverse} : tensor<8x16x5xf32>, tensor<2x16x5xf32>, tensor<8x4x5xf32>
  %b, %l, %x = graph.state_passing to %t : tensor<8x4x16xf32> from %t : tensor<8x4x16xf32> update %u : tensor<8x4x5xf32> plus %e : tensor<8x16x5xf32>
    decay %f : tensor<8x1x5xf32> past %p : tensor<2x16x5xf32> {chunks = 4 : i64, reverse} : tensor<8x16x5xf32>, tensor<2x16x5xf32>, tensor<8x4x5xf32>
  // CHECK: graph.state_passing plus %{{.*}} : tensor<8x16x5xf32> {chunks = 4 : i64} : tensor<8x16x5xf32>, tensor<2x16x5xf32>
  %c, %m = graph.state_passing plus %e : tensor<8x16x5xf32> {chunks = 4 : i64} : tensor<8x16x5xf32>, tensor<2x16x5xf32>
  return %b, %m : tensor<8x16x5xf32>, tensor<2x16x5xf32>
}

// CHECK-LABEL: func @unit_lower_inverse
func.func @unit_lower_inverse(%a: tensor<8x64x64xf32>) -> tensor<8x64x64xf32> {
  // CHECK: graph.unit_lower_inverse %{{.*}} : tensor<8x64x64xf32>
  %y = graph.unit_lower_inverse %a : tensor<8x64x64xf32>
  return %y : tensor<8x64x64xf32>
}
