// Each numbered constraint of the selective scan and its gradient, broken once.
// RUN: ztc-opt %s -verify-diagnostics -split-input-file

// (C1): rank of v
func.func @f(%v: tensor<80x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{v is not 3-D, or rate not 2-D: 'tensor<80x80xf32>' and 'tensor<6x80xf32>'}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<80x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C1): rank of rate
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{v is not 3-D, or rate not 2-D: 'tensor<2x40x80xf32>' and 'tensor<80xf32>'}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C1): delta
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x6xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{delta is 'tensor<2x40x6xf32>', expected the shape (2, 40, 80)}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x6xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C2)
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x79xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{rate is 'tensor<6x79xf32>', expected the shape (6, 80)}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x79xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C3): b
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x5xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{b is 'tensor<2x40x5xf32>', expected the shape (2, 40, 6)}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x5xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C3): c
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x41x6xf32>) {
  // expected-error @+1 {{c is 'tensor<2x41x6xf32>', expected the shape (2, 40, 6)}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x41x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C4): y
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{y is 'tensor<2x40x81xf32>', expected the shape (2, 40, 80)}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x81xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C4): states
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{states is 'tensor<2x1x6x80xf32>', expected the shape (2, 2, 6, 80)}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x1x6x80xf32>
  return
}

// -----

// (C5)
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>, %starts: tensor<2x41xi32>) {
  // expected-error @+1 {{document_starts is 'tensor<2x41xi32>', expected the shape (2, 40)}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c within %starts : tensor<2x41xi32> {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C6)
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{chunk is not a multiple of 8: 12}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 12 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C6): none
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{chunk is not a multiple of 8: 0}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 0 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  return
}

// -----

// (C7)
func.func @f(%v: tensor<2x40x72xf32>, %delta: tensor<2x40x72xf32>, %rate: tensor<6x72xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>) {
  // expected-error @+1 {{has 72 channels, expected a multiple of 16}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<2x40x72xf32>, tensor<2x40x72xf32>, tensor<6x72xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x72xf32>, tensor<2x2x6x72xf32>
  return
}

// -----

// (C8)
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<65x80xf32>, %b: tensor<2x40x65xf32>, %c: tensor<2x40x65xf32>) {
  // expected-error @+1 {{has states of 65 numbers, expected 1 to 64}}
  %0:2 = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<65x80xf32>, tensor<2x40x65xf32>, tensor<2x40x65xf32> -> tensor<2x40x80xf32>, tensor<2x2x65x80xf32>
  return
}

// -----

// the gradient, (C1)
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x41x6xf32>, %states: tensor<2x2x6x80xf32>, %dy: tensor<2x40x80xf32>) {
  // expected-error @+1 {{c is 'tensor<2x41x6xf32>', expected the shape (2, 40, 6)}}
  %0:5 = graph.selective_scan_grad %v, %delta, %rate, %b, %c, %states, %dy {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x41x6xf32>, tensor<2x2x6x80xf32>, tensor<2x40x80xf32> -> tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<2x6x80xf32>, tensor<2x2x40x6xf32>, tensor<2x2x40x6xf32>
  return
}

// -----

// the gradient, (C2): dy
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>, %states: tensor<2x2x6x80xf32>, %dy: tensor<2x40x6xf32>) {
  // expected-error @+1 {{dy is 'tensor<2x40x6xf32>', expected the shape (2, 40, 80)}}
  %0:5 = graph.selective_scan_grad %v, %delta, %rate, %b, %c, %states, %dy {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32>, tensor<2x2x6x80xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<2x6x80xf32>, tensor<2x2x40x6xf32>, tensor<2x2x40x6xf32>
  return
}

// -----

// the gradient, (C2): dv
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>, %states: tensor<2x2x6x80xf32>, %dy: tensor<2x40x80xf32>) {
  // expected-error @+1 {{dv is 'tensor<2x40x6xf32>', expected the shape (2, 40, 80)}}
  %0:5 = graph.selective_scan_grad %v, %delta, %rate, %b, %c, %states, %dy {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32>, tensor<2x2x6x80xf32>, tensor<2x40x80xf32> -> tensor<2x40x6xf32>, tensor<2x40x80xf32>, tensor<2x6x80xf32>, tensor<2x2x40x6xf32>, tensor<2x2x40x6xf32>
  return
}

// -----

// the gradient, (C2): ddelta
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>, %states: tensor<2x2x6x80xf32>, %dy: tensor<2x40x80xf32>) {
  // expected-error @+1 {{ddelta is 'tensor<2x40x6xf32>', expected the shape (2, 40, 80)}}
  %0:5 = graph.selective_scan_grad %v, %delta, %rate, %b, %c, %states, %dy {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32>, tensor<2x2x6x80xf32>, tensor<2x40x80xf32> -> tensor<2x40x80xf32>, tensor<2x40x6xf32>, tensor<2x6x80xf32>, tensor<2x2x40x6xf32>, tensor<2x2x40x6xf32>
  return
}

// -----

// the gradient, (C3)
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>, %states: tensor<2x2x6x80xf32>, %dy: tensor<2x40x80xf32>) {
  // expected-error @+1 {{drate is 'tensor<6x80xf32>', expected the shape (2, 6, 80)}}
  %0:5 = graph.selective_scan_grad %v, %delta, %rate, %b, %c, %states, %dy {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32>, tensor<2x2x6x80xf32>, tensor<2x40x80xf32> -> tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x2x40x6xf32>, tensor<2x2x40x6xf32>
  return
}

// -----

// the gradient, (C4): db
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>, %states: tensor<2x2x6x80xf32>, %dy: tensor<2x40x80xf32>) {
  // expected-error @+1 {{db is 'tensor<2x40x6xf32>', expected the shape (2, 2, 40, 6)}}
  %0:5 = graph.selective_scan_grad %v, %delta, %rate, %b, %c, %states, %dy {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32>, tensor<2x2x6x80xf32>, tensor<2x40x80xf32> -> tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<2x6x80xf32>, tensor<2x40x6xf32>, tensor<2x2x40x6xf32>
  return
}

// -----

// the gradient, (C4): dc
func.func @f(%v: tensor<2x40x80xf32>, %delta: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %c: tensor<2x40x6xf32>, %states: tensor<2x2x6x80xf32>, %dy: tensor<2x40x80xf32>) {
  // expected-error @+1 {{dc is 'tensor<2x40x6xf32>', expected the shape (2, 2, 40, 6)}}
  %0:5 = graph.selective_scan_grad %v, %delta, %rate, %b, %c, %states, %dy {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32>, tensor<2x2x6x80xf32>, tensor<2x40x80xf32> -> tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<2x6x80xf32>, tensor<2x2x40x6xf32>, tensor<2x40x6xf32>
  return
}
