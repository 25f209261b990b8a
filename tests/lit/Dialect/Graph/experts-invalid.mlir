// Each numbered constraint of the ops whose rows go to groups, broken once.
// RUN: ztc-opt %s -verify-diagnostics -split-input-file

// route (C1)
func.func @f(%c: tensor<32xi32>) {
  // expected-error @+1 {{choices is not 2-D: 'tensor<32xi32>'}}
  %0:3 = graph.route %c : tensor<32xi32> -> tensor<32xi32>, tensor<32xi32>, tensor<5xi32>
  return
}

// -----

// route (C2): order
func.func @f(%c: tensor<16x2xi32>) {
  // expected-error @+1 {{order is 'tensor<16xi32>', expected the shape (32)}}
  %0:3 = graph.route %c : tensor<16x2xi32> -> tensor<16xi32>, tensor<16x2xi32>, tensor<5xi32>
  return
}

// -----

// route (C2): places
func.func @f(%c: tensor<16x2xi32>) {
  // expected-error @+1 {{places is 'tensor<32xi32>', expected the shape (16, 2)}}
  %0:3 = graph.route %c : tensor<16x2xi32> -> tensor<32xi32>, tensor<32xi32>, tensor<5xi32>
  return
}

// -----

// route (C2): rank of starts
func.func @f(%c: tensor<16x2xi32>) {
  // expected-error @+1 {{starts is 'tensor<1x5xi32>', expected a number for each expert and one more}}
  %0:3 = graph.route %c : tensor<16x2xi32> -> tensor<32xi32>, tensor<16x2xi32>, tensor<1x5xi32>
  return
}

// -----

// route (C2): no expert
func.func @f(%c: tensor<16x2xi32>) {
  // expected-error @+1 {{starts is 'tensor<1xi32>', expected a number for each expert and one more}}
  %0:3 = graph.route %c : tensor<16x2xi32> -> tensor<32xi32>, tensor<16x2xi32>, tensor<1xi32>
  return
}

// -----

// dispatch (C1): places
func.func @f(%x: tensor<16x4xf32>, %o: tensor<32xi32>, %p: tensor<32xi32>) {
  // expected-error @+1 {{places is not 2-D: 'tensor<32xi32>'}}
  %0 = graph.dispatch %x by %o, %p : tensor<16x4xf32>, tensor<32xi32>, tensor<32xi32> -> tensor<32x4xf32>
  return
}

// -----

// dispatch (C1): x
func.func @f(%x: tensor<10x4xf32>, %o: tensor<32xi32>, %p: tensor<16x2xi32>) {
  // expected-error @+1 {{what has a row for each token is 'tensor<10x4xf32>', expected the shape (16, 4)}}
  %0 = graph.dispatch %x by %o, %p : tensor<10x4xf32>, tensor<32xi32>, tensor<16x2xi32> -> tensor<32x4xf32>
  return
}

// -----

// dispatch (C1): order
func.func @f(%x: tensor<16x4xf32>, %o: tensor<16xi32>, %p: tensor<16x2xi32>) {
  // expected-error @+1 {{order is 'tensor<16xi32>', expected the shape (32)}}
  %0 = graph.dispatch %x by %o, %p : tensor<16x4xf32>, tensor<16xi32>, tensor<16x2xi32> -> tensor<32x4xf32>
  return
}

// -----

// dispatch (C2): shape
func.func @f(%x: tensor<16x4xf32>, %o: tensor<32xi32>, %p: tensor<16x2xi32>) {
  // expected-error @+1 {{what has a row for each choice is 'tensor<32x5xf32>', expected the shape (32, 4)}}
  %0 = graph.dispatch %x by %o, %p : tensor<16x4xf32>, tensor<32xi32>, tensor<16x2xi32> -> tensor<32x5xf32>
  return
}

// -----

// dispatch (C2): type
func.func @f(%x: tensor<16x4xf32>, %o: tensor<32xi32>, %p: tensor<16x2xi32>) {
  // expected-error @+1 {{element types differ: 'tensor<16x4xf32>' and 'tensor<32x4xbf16>'}}
  %0 = graph.dispatch %x by %o, %p : tensor<16x4xf32>, tensor<32xi32>, tensor<16x2xi32> -> tensor<32x4xbf16>
  return
}

// -----

// combine (C1): places
func.func @f(%x: tensor<32x4xf32>, %o: tensor<32xi32>, %p: tensor<32xi32>) {
  // expected-error @+1 {{places is not 2-D: 'tensor<32xi32>'}}
  %0 = graph.combine %x by %o, %p : tensor<32x4xf32>, tensor<32xi32>, tensor<32xi32> -> tensor<16x4xf32>
  return
}

// -----

// combine (C1): x
func.func @f(%x: tensor<16x4xf32>, %o: tensor<32xi32>, %p: tensor<16x2xi32>) {
  // expected-error @+1 {{what has a row for each choice is 'tensor<16x4xf32>', expected the shape (32, 4)}}
  %0 = graph.combine %x by %o, %p : tensor<16x4xf32>, tensor<32xi32>, tensor<16x2xi32> -> tensor<16x4xf32>
  return
}

// -----

// combine (C1): order
func.func @f(%x: tensor<32x4xf32>, %o: tensor<16xi32>, %p: tensor<16x2xi32>) {
  // expected-error @+1 {{order is 'tensor<16xi32>', expected the shape (32)}}
  %0 = graph.combine %x by %o, %p : tensor<32x4xf32>, tensor<16xi32>, tensor<16x2xi32> -> tensor<16x4xf32>
  return
}

// -----

// combine (C2): shape
func.func @f(%x: tensor<32x4xf32>, %o: tensor<32xi32>, %p: tensor<16x2xi32>) {
  // expected-error @+1 {{what has a row for each token is 'tensor<10x4xf32>', expected the shape (16, 4)}}
  %0 = graph.combine %x by %o, %p : tensor<32x4xf32>, tensor<32xi32>, tensor<16x2xi32> -> tensor<10x4xf32>
  return
}

// -----

// combine (C2): type
func.func @f(%x: tensor<32x4xf32>, %o: tensor<32xi32>, %p: tensor<16x2xi32>) {
  // expected-error @+1 {{element types differ: 'tensor<16x4xbf16>' and 'tensor<32x4xf32>'}}
  %0 = graph.combine %x by %o, %p : tensor<32x4xf32>, tensor<32xi32>, tensor<16x2xi32> -> tensor<16x4xbf16>
  return
}

// -----

// grouped_matmul (C1): x
func.func @f(%x: tensor<2x16x40xf32>, %w: tensor<4x20x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{x is not 2-D: 'tensor<2x16x40xf32>'}}
  %0 = graph.grouped_matmul %x, %w rows %s {transpose_b} : tensor<2x16x40xf32>, tensor<4x20x40xf32>, tensor<5xi32> -> tensor<32x20xf32>
  return
}

// -----

// grouped_matmul (C1): w
func.func @f(%x: tensor<32x40xf32>, %w: tensor<20x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{w is not 3-D: 'tensor<20x40xf32>'}}
  %0 = graph.grouped_matmul %x, %w rows %s {transpose_b} : tensor<32x40xf32>, tensor<20x40xf32>, tensor<5xi32> -> tensor<32x20xf32>
  return
}

// -----

// grouped_matmul (C1): sizes
func.func @f(%x: tensor<32x40xf32>, %w: tensor<4x20x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{contraction sizes differ: x 'tensor<32x40xf32>', w 'tensor<4x20x40xf32>'}}
  %0 = graph.grouped_matmul %x, %w rows %s : tensor<32x40xf32>, tensor<4x20x40xf32>, tensor<5xi32> -> tensor<32x20xf32>
  return
}

// -----

// grouped_matmul (C1): sizes, transposed
func.func @f(%x: tensor<32x40xf32>, %w: tensor<4x40x20xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{contraction sizes differ: x 'tensor<32x40xf32>', w 'tensor<4x40x20xf32>'}}
  %0 = graph.grouped_matmul %x, %w rows %s {transpose_b} : tensor<32x40xf32>, tensor<4x40x20xf32>, tensor<5xi32> -> tensor<32x20xf32>
  return
}

// -----

// grouped_matmul (C2)
func.func @f(%x: tensor<32x40xf32>, %w: tensor<4x20x40xf32>, %s: tensor<4xi32>) {
  // expected-error @+1 {{starts is 'tensor<4xi32>', expected the shape (5)}}
  %0 = graph.grouped_matmul %x, %w rows %s {transpose_b} : tensor<32x40xf32>, tensor<4x20x40xf32>, tensor<4xi32> -> tensor<32x20xf32>
  return
}

// -----

// grouped_matmul (C3)
func.func @f(%x: tensor<32x40xf32>, %w: tensor<4x20x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{y is 'tensor<32x40xf32>', expected the shape (32, 20)}}
  %0 = graph.grouped_matmul %x, %w rows %s {transpose_b} : tensor<32x40xf32>, tensor<4x20x40xf32>, tensor<5xi32> -> tensor<32x40xf32>
  return
}

// -----

// grouped_matmul (C4): factors
func.func @f(%x: tensor<32x40xbf16>, %w: tensor<4x20x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{element types do not fit: x 'tensor<32x40xbf16>', w 'tensor<4x20x40xf32>', y 'tensor<32x20xf32>'}}
  %0 = graph.grouped_matmul %x, %w rows %s {transpose_b} : tensor<32x40xbf16>, tensor<4x20x40xf32>, tensor<5xi32> -> tensor<32x20xf32>
  return
}

// -----

// grouped_matmul (C4): result
func.func @f(%x: tensor<32x40xf32>, %w: tensor<4x20x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{element types do not fit: x 'tensor<32x40xf32>', w 'tensor<4x20x40xf32>', y 'tensor<32x20xbf16>'}}
  %0 = graph.grouped_matmul %x, %w rows %s {transpose_b} : tensor<32x40xf32>, tensor<4x20x40xf32>, tensor<5xi32> -> tensor<32x20xbf16>
  return
}

// -----

// grouped_outer (C1): a
func.func @f(%a: tensor<640xf32>, %b: tensor<32x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{a is not 2-D: 'tensor<640xf32>'}}
  %0 = graph.grouped_outer %a, %b rows %s : tensor<640xf32>, tensor<32x40xf32>, tensor<5xi32> -> tensor<4x20x40xf32>
  return
}

// -----

// grouped_outer (C1): b
func.func @f(%a: tensor<32x20xf32>, %b: tensor<16x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{b is 'tensor<16x40xf32>', expected the shape (32, 40)}}
  %0 = graph.grouped_outer %a, %b rows %s : tensor<32x20xf32>, tensor<16x40xf32>, tensor<5xi32> -> tensor<4x20x40xf32>
  return
}

// -----

// grouped_outer (C2)
func.func @f(%a: tensor<32x20xf32>, %b: tensor<32x40xf32>, %s: tensor<4xi32>) {
  // expected-error @+1 {{starts is 'tensor<4xi32>', expected the shape (5)}}
  %0 = graph.grouped_outer %a, %b rows %s : tensor<32x20xf32>, tensor<32x40xf32>, tensor<4xi32> -> tensor<4x20x40xf32>
  return
}

// -----

// grouped_outer (C3): rank
func.func @f(%a: tensor<32x20xf32>, %b: tensor<32x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{y is not 3-D: 'tensor<20x40xf32>'}}
  %0 = graph.grouped_outer %a, %b rows %s : tensor<32x20xf32>, tensor<32x40xf32>, tensor<5xi32> -> tensor<20x40xf32>
  return
}

// -----

// grouped_outer (C3): shape
func.func @f(%a: tensor<32x20xf32>, %b: tensor<32x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{y is 'tensor<4x40x40xf32>', expected the shape (4, 20, 40)}}
  %0 = graph.grouped_outer %a, %b rows %s : tensor<32x20xf32>, tensor<32x40xf32>, tensor<5xi32> -> tensor<4x40x40xf32>
  return
}

// -----

// grouped_outer (C4): factors
func.func @f(%a: tensor<32x20xbf16>, %b: tensor<32x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{element types do not fit: a 'tensor<32x20xbf16>', b 'tensor<32x40xf32>', y 'tensor<4x20x40xf32>'}}
  %0 = graph.grouped_outer %a, %b rows %s : tensor<32x20xbf16>, tensor<32x40xf32>, tensor<5xi32> -> tensor<4x20x40xf32>
  return
}

// -----

// grouped_outer (C4): result
func.func @f(%a: tensor<32x20xf32>, %b: tensor<32x40xf32>, %s: tensor<5xi32>) {
  // expected-error @+1 {{element types do not fit: a 'tensor<32x20xf32>', b 'tensor<32x40xf32>', y 'tensor<4x20x40xf16>'}}
  %0 = graph.grouped_outer %a, %b rows %s : tensor<32x20xf32>, tensor<32x40xf32>, tensor<5xi32> -> tensor<4x20x40xf16>
  return
}
