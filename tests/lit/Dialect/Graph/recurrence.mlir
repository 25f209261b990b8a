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
