// Each numbered constraint of linear attention and causal convolution, broken once.
// RUN: ztc-opt %s -verify-diagnostics -split-input-file

// linear_attention (C1): rank
func.func @f(%q: tensor<8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>) {
  // expected-error @+1 {{q, k and v are not 4-D: 'tensor<8x2x16xf32>', 'tensor<1x8x2x16xf32>' and 'tensor<1x8x2x4xf32>'}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 {chunk = 4 : i64} : tensor<8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C1): widths of q and k
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x8xf32>, %v: tensor<1x8x2x4xf32>) {
  // expected-error @+1 {{k is 'tensor<1x8x2x8xf32>', expected the shape (1, 8, 2, 16)}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 {chunk = 4 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x8xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C1): heads of k and v
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x1x4xf32>) {
  // expected-error @+1 {{v is 'tensor<1x8x1x4xf32>', expected the shape (1, 8, 2, 4)}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 {chunk = 4 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x1x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C2)
func.func @f(%q: tensor<1x8x3x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>) {
  // expected-error @+1 {{key heads do not divide query heads: 2 and 3}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 {chunk = 4 : i64} : tensor<1x8x3x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x3x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C3)
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>, %g: tensor<1x8x2x4xf32>) {
  // expected-error @+1 {{decay is 'tensor<1x8x2x4xf32>', expected the shape (1, 8, 2, 16)}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 decay %g : tensor<1x8x2x4xf32> {chunk = 4 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C4): no beta
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>) {
  // expected-error @+1 {{follows the delta rule and has no beta}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 {chunk = 4 : i64, delta} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C4): beta
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>, %b: tensor<1x8x2x1xf32>) {
  // expected-error @+1 {{has beta without the delta rule}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 beta %b : tensor<1x8x2x1xf32> {chunk = 4 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C4): shape
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>, %b: tensor<1x8x1x1xf32>) {
  // expected-error @+1 {{beta is 'tensor<1x8x1x1xf32>', expected the shape (1, 8, 2, 1)}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 beta %b : tensor<1x8x1x1xf32> {chunk = 4 : i64, delta} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C5): past
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>, %p: tensor<1x2x4x16xf32>) {
  // expected-error @+1 {{past is 'tensor<1x2x4x16xf32>', expected the shape (1, 2, 16, 4)}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 past %p : tensor<1x2x4x16xf32> {chunk = 4 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C5): state
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>) {
  // expected-error @+1 {{state is 'tensor<1x2x4x16xf32>', expected the shape (1, 2, 16, 4)}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 {chunk = 4 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x4x16xf32>
  return
}

// -----

// linear_attention (C6)
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>) {
  // expected-error @+1 {{y is 'tensor<1x8x2x16xf32>', expected the shape (1, 8, 2, 4)}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 {chunk = 4 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x16xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C7): shape
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>, %d: tensor<8xi32>) {
  // expected-error @+1 {{document_starts is 'tensor<8xi32>', expected the shape (1, 8)}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 within %d : tensor<8xi32> {chunk = 4 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C7): past
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>, %p: tensor<1x2x16x4xf32>, %d: tensor<1x8xi32>) {
  // expected-error @+1 {{has document_starts and a past}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 past %p : tensor<1x2x16x4xf32> within %d : tensor<1x8xi32> {chunk = 4 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// linear_attention (C8)
func.func @f(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %v: tensor<1x8x2x4xf32>) {
  // expected-error @+1 {{chunk is not a power of two: 3}}
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 {chunk = 3 : i64} : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>
  return
}

// -----

// causal_convolution (C1): rank
func.func @f(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) {
  // expected-error @+1 {{x is not 3-D, or the weight not 2-D of its channels: 'tensor<8x16xf32>' and 'tensor<16x4xf32>'}}
  %y = graph.causal_convolution %x, %w : tensor<8x16xf32>, tensor<16x4xf32>
  return
}

// -----

// causal_convolution (C1): channels
func.func @f(%x: tensor<1x8x16xf32>, %w: tensor<8x4xf32>) {
  // expected-error @+1 {{x is not 3-D, or the weight not 2-D of its channels: 'tensor<1x8x16xf32>' and 'tensor<8x4xf32>'}}
  %y = graph.causal_convolution %x, %w : tensor<1x8x16xf32>, tensor<8x4xf32>
  return
}

// -----

// causal_convolution (C2)
func.func @f(%x: tensor<1x8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{bias is 'tensor<8xf32>', expected the shape (16)}}
  %y = graph.causal_convolution %x, %w bias %b : tensor<8xf32> : tensor<1x8x16xf32>, tensor<16x4xf32>
  return
}

// -----

// causal_convolution (C3)
func.func @f(%x: tensor<1x8x16xf32>, %w: tensor<16x4xf32>, %p: tensor<1x4x16xf32>) {
  // expected-error @+1 {{past is 'tensor<1x4x16xf32>', expected the shape (1, 3, 16)}}
  %y = graph.causal_convolution %x, %w past %p : tensor<1x4x16xf32> : tensor<1x8x16xf32>, tensor<16x4xf32>
  return
}

// -----

// causal_convolution (C4): shape
func.func @f(%x: tensor<1x8x16xf32>, %w: tensor<16x4xf32>, %d: tensor<2x8xi32>) {
  // expected-error @+1 {{document_starts is 'tensor<2x8xi32>', expected the shape (1, 8)}}
  %y = graph.causal_convolution %x, %w within %d : tensor<2x8xi32> : tensor<1x8x16xf32>, tensor<16x4xf32>
  return
}

// -----

// causal_convolution (C4): past
func.func @f(%x: tensor<1x8x16xf32>, %w: tensor<16x4xf32>, %p: tensor<1x3x16xf32>, %d: tensor<1x8xi32>) {
  // expected-error @+1 {{has document_starts and a past}}
  %y = graph.causal_convolution %x, %w past %p : tensor<1x3x16xf32> within %d : tensor<1x8xi32> : tensor<1x8x16xf32>, tensor<16x4xf32>
  return
}
