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
  // expected-error @+1 {{chunk is not a power of two up to 64: 3}}
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

// -----

// linear_attention (C8): size
func.func @f(%q: tensor<1x256x1x2xf32>) {
  // expected-error @+1 {{chunk is not a power of two up to 64: 128}}
  %y, %s = graph.linear_attention %q, %q, %q, 1.0 {chunk = 128 : i64} : tensor<1x256x1x2xf32>, tensor<1x256x1x2xf32>, tensor<1x256x1x2xf32> -> tensor<1x256x1x2xf32>, tensor<1x1x2x2xf32>
  return
}

// -----

// state_passing (C1): to alone
func.func @f(%t: tensor<4x3x2xf32>) {
  // expected-error @+1 {{has not all of to, from, update and x}}
  %b, %l = graph.state_passing to %t : tensor<4x3x2xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// state_passing (C1): x
func.func @f(%t: tensor<4x3x2xf32>, %u: tensor<4x3x5xf32>) {
  // expected-error @+1 {{has not all of to, from, update and x}}
  %b, %l = graph.state_passing to %t : tensor<4x3x2xf32> from %t : tensor<4x3x2xf32> update %u : tensor<4x3x5xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// state_passing (C1): nothing
func.func @f(%p: tensor<2x2x5xf32>) {
  // expected-error @+1 {{adds nothing to the states}}
  %b, %l = graph.state_passing past %p : tensor<2x2x5xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// state_passing (C2): rank
func.func @f(%e: tensor<4x2x5xf32>) {
  // expected-error @+1 {{last is not 3-D, or there is not one chunk: 'tensor<2x10xf32>', 2 chunks}}
  %b, %l = graph.state_passing plus %e : tensor<4x2x5xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x10xf32>
  return
}

// -----

// state_passing (C2): chunks
func.func @f(%e: tensor<4x2x5xf32>) {
  // expected-error @+1 {{last is not 3-D, or there is not one chunk: 'tensor<2x2x5xf32>', 0 chunks}}
  %b, %l = graph.state_passing plus %e : tensor<4x2x5xf32> {chunks = 0 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// state_passing (C2): before
func.func @f(%e: tensor<4x2x5xf32>) {
  // expected-error @+1 {{before is 'tensor<3x2x5xf32>', expected the shape (4, 2, 5)}}
  %b, %l = graph.state_passing plus %e : tensor<4x2x5xf32> {chunks = 2 : i64} : tensor<3x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// state_passing (C2): plus
func.func @f(%e: tensor<4x5x2xf32>) {
  // expected-error @+1 {{plus is 'tensor<4x5x2xf32>', expected the shape (4, 2, 5)}}
  %b, %l = graph.state_passing plus %e : tensor<4x5x2xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// state_passing (C3): rank
func.func @f(%t: tensor<4x6xf32>, %u: tensor<4x3x5xf32>) {
  // expected-error @+1 {{to is not 3-D: 'tensor<4x6xf32>'}}
  %b, %l, %x = graph.state_passing to %t : tensor<4x6xf32> from %t : tensor<4x6xf32> update %u : tensor<4x3x5xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>, tensor<4x3x5xf32>
  return
}

// -----

// state_passing (C3): from
func.func @f(%t: tensor<4x3x2xf32>, %f: tensor<4x2x2xf32>, %u: tensor<4x3x5xf32>) {
  // expected-error @+1 {{from is 'tensor<4x2x2xf32>', expected the shape (4, 3, 2)}}
  %b, %l, %x = graph.state_passing to %t : tensor<4x3x2xf32> from %f : tensor<4x2x2xf32> update %u : tensor<4x3x5xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>, tensor<4x3x5xf32>
  return
}

// -----

// state_passing (C4): rows
func.func @f(%e: tensor<4x2x5xf32>, %d: tensor<4x3x1xf32>) {
  // expected-error @+1 {{decay is 'tensor<4x3x1xf32>', expected (4, 1 or 2, a divisor of 5)}}
  %b, %l = graph.state_passing plus %e : tensor<4x2x5xf32> decay %d : tensor<4x3x1xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// state_passing (C4): parts
func.func @f(%e: tensor<4x2x5xf32>, %d: tensor<4x1x2xf32>) {
  // expected-error @+1 {{decay is 'tensor<4x1x2xf32>', expected (4, 1 or 2, a divisor of 5)}}
  %b, %l = graph.state_passing plus %e : tensor<4x2x5xf32> decay %d : tensor<4x1x2xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// state_passing (C5)
func.func @f(%e: tensor<4x2x5xf32>, %p: tensor<4x2x5xf32>) {
  // expected-error @+1 {{past is 'tensor<4x2x5xf32>', expected the shape (2, 2, 5)}}
  %b, %l = graph.state_passing plus %e : tensor<4x2x5xf32> past %p : tensor<4x2x5xf32> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// state_passing (C6)
func.func @f(%e: tensor<4x2x5xf64>) {
  // expected-error @+1 {{element types differ: 'tensor<4x2x5xf64>' and 'tensor<2x2x5xf32>'}}
  %b, %l = graph.state_passing plus %e : tensor<4x2x5xf64> {chunks = 2 : i64} : tensor<4x2x5xf32>, tensor<2x2x5xf32>
  return
}

// -----

// unit_lower_inverse (C1): square
func.func @f(%a: tensor<4x3x2xf32>) {
  // expected-error @+1 {{a is 'tensor<4x3x2xf32>', expected square matrices of at most 64 rows}}
  %y = graph.unit_lower_inverse %a : tensor<4x3x2xf32>
  return
}

// -----

// unit_lower_inverse (C1): size
func.func @f(%a: tensor<4x65x65xf32>) {
  // expected-error @+1 {{a is 'tensor<4x65x65xf32>', expected square matrices of at most 64 rows}}
  %y = graph.unit_lower_inverse %a : tensor<4x65x65xf32>
  return
}

// -----

// causal_filter (C1)
func.func @f(%x: tensor<1x8x16xf32>, %t: tensor<16x4xf32>) {
  // expected-error @+1 {{x is not 3-D, or taps not 2-D of its channels: 'tensor<1x8x16xf32>' and 'tensor<16x4xf32>'}}
  %y = graph.causal_filter %x by %t : tensor<16x4xf32> : tensor<1x8x16xf32>
  return
}

// -----

// causal_filter (C2): bias
func.func @f(%x: tensor<1x8x16xf32>, %t: tensor<4x16xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{bias is 'tensor<8xf32>', expected the shape (16)}}
  %y = graph.causal_filter %x by %t : tensor<4x16xf32> bias %b : tensor<8xf32> : tensor<1x8x16xf32>
  return
}

// -----

// causal_filter (C2): document_starts
func.func @f(%x: tensor<1x8x16xf32>, %t: tensor<4x16xf32>, %d: tensor<1x7xi32>) {
  // expected-error @+1 {{document_starts is 'tensor<1x7xi32>', expected the shape (1, 8)}}
  %y = graph.causal_filter %x by %t : tensor<4x16xf32> within %d : tensor<1x7xi32> : tensor<1x8x16xf32>
  return
}

// -----

// causal_filter_grad (C1)
func.func @f(%x: tensor<1x8x16xf32>, %t: tensor<4x8xf32>) {
  // expected-error @+1 {{x is not 3-D, or taps not 2-D of its channels: 'tensor<1x8x16xf32>' and 'tensor<4x8xf32>'}}
  %dx, %s = graph.causal_filter_grad %x by %t : tensor<4x8xf32> cotangent %x : tensor<1x8x16xf32> -> tensor<16xf32>
  return
}

// -----

// causal_filter_grad (C2): sums
func.func @f(%x: tensor<1x8x16xf32>, %t: tensor<1x16xf32>) {
  // expected-error @+1 {{has 1 sums, expected 2}}
  %dx, %s = graph.causal_filter_grad %x by %t : tensor<1x16xf32> cotangent %x {bias} : tensor<1x8x16xf32> -> tensor<16xf32>
  return
}

// -----

// causal_filter_grad (C2): shape
func.func @f(%x: tensor<1x8x16xf32>, %t: tensor<1x16xf32>) {
  // expected-error @+1 {{a sum is 'tensor<8xf32>', expected the shape (16)}}
  %dx, %s = graph.causal_filter_grad %x by %t : tensor<1x16xf32> cotangent %x : tensor<1x8x16xf32> -> tensor<8xf32>
  return
}

// -----

// causal_filter_grad (C3)
func.func @f(%x: tensor<1x8x16xf32>, %t: tensor<1x16xf32>, %d: tensor<2x8xi32>) {
  // expected-error @+1 {{document_starts is 'tensor<2x8xi32>', expected the shape (1, 8)}}
  %dx, %s = graph.causal_filter_grad %x by %t : tensor<1x16xf32> cotangent %x within %d : tensor<2x8xi32> : tensor<1x8x16xf32> -> tensor<16xf32>
  return
}
