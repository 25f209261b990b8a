// Each numbered constraint of each op, broken once.
// RUN: ztc-opt %s -verify-diagnostics -split-input-file

// power (C1)
func.func @power(%x: tensor<2xi32>) {
  // expected-error @+1 {{element type is not a float: 'i32'}}
  %0 = graph.power %x, 2.0 : tensor<2xi32>
  return
}

// -----

// compare: predicate
func.func @compare(%x: tensor<2xf32>) {
  // expected-error @+2 {{expected one of [eq, ne, lt, le, gt, ge]}}
  // expected-error @+1 {{failed to parse Graph_ComparisonAttr parameter}}
  %0 = graph.compare less, %x, %x : tensor<2xf32> -> tensor<2xi1>
  return
}

// -----

// compare (C1): element type
func.func @compare(%x: tensor<2xf32>) {
  // expected-error @+1 {{result element type is not i1: 'f32'}}
  %0 = graph.compare lt, %x, %x : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

// compare (C1): shape
func.func @compare(%x: tensor<2xf32>) {
  // expected-error @+1 {{all non-scalar operands/results must have the same shape and base type}}
  %0 = graph.compare lt, %x, %x : tensor<2xf32> -> tensor<3xi1>
  return
}

// -----

// select (C1)
func.func @select(%c: tensor<2xi32>, %x: tensor<2xf32>) {
  // expected-error @+1 {{condition is not i1: 'i32'}}
  %0 = graph.select %c, %x, %x : tensor<2xi32>, tensor<2xf32>
  return
}

// -----

// select (C2)
func.func @select(%c: tensor<3xi1>, %x: tensor<2xf32>) {
  // expected-error @+1 {{all non-scalar operands/results must have the same shape and base type}}
  %0 = graph.select %c, %x, %x : tensor<3xi1>, tensor<2xf32>
  return
}

// -----

// logic: function
func.func @logic(%x: tensor<2xi1>) {
  // expected-error @+2 {{expected one of [and, or, xor]}}
  // expected-error @+1 {{failed to parse Graph_LogicAttr parameter}}
  %0 = graph.logic nand, %x, %x : tensor<2xi1>
  return
}

// -----

// logic (C1)
func.func @logic(%x: tensor<2xf32>) {
  // expected-error @+1 {{element type is not an integer: 'f32'}}
  %0 = graph.logic and, %x, %x : tensor<2xf32>
  return
}

// -----

// round: mode
func.func @round(%x: tensor<2xf32>) {
  // expected-error @+2 {{expected one of [floor, ceil, even, truncate]}}
  // expected-error @+1 {{failed to parse Graph_RoundingAttr parameter}}
  %0 = graph.round up, %x : tensor<2xf32>
  return
}

// -----

// round (C1)
func.func @round(%x: tensor<2xi32>) {
  // expected-error @+1 {{element type is not a float: 'i32'}}
  %0 = graph.round floor, %x : tensor<2xi32>
  return
}

// -----

// iota (C1)
func.func @iota() {
  // expected-error @+1 {{dimension 2 is outside rank 2}}
  %0 = graph.iota 2 : tensor<2x3xi32>
  return
}

// -----

// iota (C2)
func.func @iota() {
  // expected-error @+1 {{element type is neither i32 nor i64: 'f32'}}
  %0 = graph.iota 0 : tensor<2x3xf32>
  return
}

// -----

// reshape (C1)
func.func @reshape(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{element counts differ: 6 and 5}}
  %0 = graph.reshape %x : tensor<2x3xf32> -> tensor<5xf32>
  return
}

// -----

// reshape (C2)
func.func @reshape(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{element types of operand and result differ: 'f32' and 'f64'}}
  %0 = graph.reshape %x : tensor<2x3xf32> -> tensor<6xf64>
  return
}

// -----

// transpose (C1): length
func.func @transpose(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{permutation has 3 entries for rank 2}}
  %0 = graph.transpose %x, [0, 1, 2] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

// transpose (C1): repeated entry
func.func @transpose(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{not a permutation: entry 1 is out of range or repeated}}
  %0 = graph.transpose %x, [1, 1] : tensor<2x3xf32> -> tensor<3x3xf32>
  return
}

// -----

// transpose (C2)
func.func @transpose(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result dimension 0 is 2, operand dimension 1 is 3}}
  %0 = graph.transpose %x, [1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

// broadcast (C1): rank
func.func @broadcast(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{operand rank 2 exceeds result rank 1}}
  %0 = graph.broadcast %x : tensor<2x3xf32> -> tensor<3xf32>
  return
}

// -----

// broadcast (C1): size
func.func @broadcast(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{operand dimension 0 is 2, result dimension 1 is 4}}
  %0 = graph.broadcast %x : tensor<2x3xf32> -> tensor<5x4x3xf32>
  return
}

// -----

// broadcast (C2)
func.func @broadcast(%x: tensor<3xf32>) {
  // expected-error @+1 {{element types of operand and result differ: 'f32' and 'f16'}}
  %0 = graph.broadcast %x : tensor<3xf32> -> tensor<2x3xf16>
  return
}

// -----

// slice (C1)
func.func @slice(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{operand rank 2, result rank 2 and 1 offsets differ}}
  %0 = graph.slice %x, [0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

// slice (C2)
func.func @slice(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{slice leaves dimension 1: offset 2 and size 2 of 3}}
  %0 = graph.slice %x, [0, 2] : tensor<2x3xf32> -> tensor<2x2xf32>
  return
}

// -----

// pad (C1)
func.func @pad(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{operand rank 2, result rank 2 and 3 low paddings differ}}
  %0 = graph.pad %x, [0, 0, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

// pad (C2)
func.func @pad(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{operand leaves result dimension 1: low padding 2 and size 3 of 4}}
  %0 = graph.pad %x, [0, 2] : tensor<2x3xf32> -> tensor<2x4xf32>
  return
}

// -----

// concat (C1)
func.func @concat(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{axis 2 is outside rank 2}}
  %0 = graph.concat %x, %x axis 2 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x6xf32>
  return
}

// -----

// concat (C2)
func.func @concat(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>) {
  // expected-error @+1 {{dimension 0 of operand and result differ: 3 and 2}}
  %0 = graph.concat %x, %y axis 1 : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x6xf32>
  return
}

// -----

// concat (C3)
func.func @concat(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{sizes along axis 1 add up to 6, the result has 7}}
  %0 = graph.concat %x, %x axis 1 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x7xf32>
  return
}

// -----

// reduce_sum (C1): range
func.func @reduce(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{axis 2 is outside rank 2}}
  %0 = graph.reduce_sum %x, [2] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

// reduce_max (C1): order
func.func @reduce(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{axes are not sorted and distinct: 1 before 0}}
  %0 = graph.reduce_max %x, [1, 0] : tensor<2x3xf32> -> tensor<1x1xf32>
  return
}

// -----

// reduce_sum (C2)
func.func @reduce(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{result shape differs from the reduced one: 'tensor<2xf32>' and 'tensor<2x1xf32>'}}
  %0 = graph.reduce_sum %x, [1] : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

// reduce_max (C3)
func.func @reduce(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{element types of operand and result differ: 'f32' and 'f64'}}
  %0 = graph.reduce_max %x, [1] : tensor<2x3xf32> -> tensor<2x1xf64>
  return
}

// -----

// recompute_barrier (C1)
func.func @barrier(%x: tensor<2xf32>, %after: tensor<f32>) {
  // expected-error @+1 {{failed to verify that all of {x, y} have same type}}
  %0 = "graph.recompute_barrier"(%x, %after) : (tensor<2xf32>, tensor<f32>) -> tensor<3xf32>
  return
}

// -----

// matmul (C1)
func.func @matmul(%x: tensor<2x3xf32>, %y: tensor<5x3x4xf32>) {
  // expected-error @+1 {{ranks are not equal and at least 2: lhs 2, rhs 3}}
  %0 = graph.matmul %x, %y : tensor<2x3xf32>, tensor<5x3x4xf32> -> tensor<2x4xf32>
  return
}

// -----

// matmul (C2)
func.func @matmul(%x: tensor<4x2x3xf32>, %y: tensor<5x3x4xf32>) {
  // expected-error @+1 {{leading dimensions differ: lhs 'tensor<4x2x3xf32>', rhs 'tensor<5x3x4xf32>'}}
  %0 = graph.matmul %x, %y : tensor<4x2x3xf32>, tensor<5x3x4xf32> -> tensor<4x2x4xf32>
  return
}

// -----

// matmul (C3)
func.func @matmul(%x: tensor<2x64xf32>, %y: tensor<96x4xf32>) {
  // expected-error @+1 {{contraction sizes differ: lhs 64, rhs 96}}
  %0 = graph.matmul %x, %y : tensor<2x64xf32>, tensor<96x4xf32> -> tensor<2x4xf32>
  return
}

// -----

// matmul (C4)
func.func @matmul(%x: tensor<3x2xf32>, %y: tensor<4x3xf32>) {
  // expected-error @+1 {{result shape differs from that of the product: 'tensor<4x2xf32>' and 'tensor<2x4xf32>'}}
  %0 = graph.matmul %x, %y {transpose_a, transpose_b} : tensor<3x2xf32>, tensor<4x3xf32> -> tensor<4x2xf32>
  return
}

// -----

// matmul (C5)
func.func @matmul(%x: tensor<2x3xf32>, %y: tensor<3x4xbf16>) {
  // expected-error @+1 {{element types differ: lhs 'f32', rhs 'bf16'}}
  %0 = graph.matmul %x, %y : tensor<2x3xf32>, tensor<3x4xbf16> -> tensor<2x4xf32>
  return
}

// -----

// rms_norm (C1)
func.func @rms_norm(%x: tensor<2x3xf32>, %w: tensor<2xf32>) {
  // expected-error @+1 {{weight is not 1-D of the last dimension: 'tensor<2xf32>' for 'tensor<2x3xf32>'}}
  %0 = graph.rms_norm %x, %w, 1.0e-5 : tensor<2x3xf32>, tensor<2xf32>
  return
}

// -----

// rms_norm (C2)
func.func @rms_norm(%x: tensor<2x3xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{failed to verify that all of {x, y} have same type}}
  %0 = "graph.rms_norm"(%x, %w) {epsilon = 1.0e-5 : f64} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  return
}

// -----

// rms_norm (C3)
func.func @rms_norm(%x: tensor<2x3xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{epsilon is not positive: 0}}
  %0 = graph.rms_norm %x, %w, 0.0 : tensor<2x3xf32>, tensor<3xf32>
  return
}

// -----

// rms_norm_grad (C1)
func.func @rms_norm_grad(%x: tensor<2x3xf32>, %w: tensor<2xf32>) {
  // expected-error @+1 {{weight is not 1-D of the last dimension: 'tensor<2xf32>' for 'tensor<2x3xf32>'}}
  %0, %1 = graph.rms_norm_grad %x, %w, %x, 1.0e-5 : tensor<2x3xf32>, tensor<2xf32>
  return
}

// -----

// rope (C1)
func.func @rope(%x: tensor<2x5x4x3xf32>, %t: tensor<5x1xf32>) {
  // expected-error @+1 {{operand is not 4-D with an even last dimension: 'tensor<2x5x4x3xf32>'}}
  %0 = graph.rope %x, %t, %t : tensor<2x5x4x3xf32>, tensor<5x1xf32>
  return
}

// -----

// rope (C2)
func.func @rope(%x: tensor<2x5x4x6xf32>, %t: tensor<5x6xf32>) {
  // expected-error @+1 {{tables are not (5, 3): 'tensor<5x6xf32>'}}
  %0 = graph.rope %x, %t, %t : tensor<2x5x4x6xf32>, tensor<5x6xf32>
  return
}

// -----

// rope (C3)
func.func @rope(%x: tensor<2x5x4x6xf32>, %t: tensor<5x3xf32>) {
  // expected-error @+1 {{failed to verify that all of {x, y} have same type}}
  %0 = "graph.rope"(%x, %t, %t) : (tensor<2x5x4x6xf32>, tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<2x5x4x8xf32>
  return
}

// -----

// attention (C1)
func.func @attention(%q: tensor<2x5x4x6xf32>, %k: tensor<2x7x2x6xf32>) {
  // expected-error @+1 {{dimension 1 of q and k differ: 5 and 7}}
  %0 = graph.attention %q, %k, %k, 1.0 : tensor<2x5x4x6xf32>, tensor<2x7x2x6xf32>
  return
}

// -----

// attention (C2)
func.func @attention(%q: tensor<2x5x4x6xf32>, %k: tensor<2x5x3x6xf32>) {
  // expected-error @+1 {{key heads do not divide query heads: 3 and 4}}
  %0 = graph.attention %q, %k, %k, 1.0 : tensor<2x5x4x6xf32>, tensor<2x5x3x6xf32>
  return
}

// -----

// attention (C3)
func.func @attention(%q: tensor<2x5x4x6xf32>, %k: tensor<2x5x2x6xf32>) {
  // expected-error @+1 {{failed to verify that all of {k, v} have same type}}
  %0 = "graph.attention"(%q, %k, %q) {scale = 1.0 : f64} : (tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x5x4x6xf32>) -> tensor<2x5x4x6xf32>
  return
}

// -----

// attention (C4)
func.func @attention(%q: tensor<2x5x4x6xf32>) {
  // expected-error @+1 {{row statistics are not (2, 4, 5): 'tensor<2x5x4xf32>'}}
  %0, %1 = graph.attention %q, %q, %q, 1.0 : tensor<2x5x4x6xf32>, tensor<2x5x4x6xf32> -> tensor<2x5x4xf32>
  return
}

// -----

// attention (C5)
func.func @attention(%q: tensor<2x5x4x6xf32>) {
  // expected-error @+1 {{window 2 is negative or not causal}}
  %0 = graph.attention %q, %q, %q, 1.0 {window = 2 : i64} : tensor<2x5x4x6xf32>, tensor<2x5x4x6xf32>
  return
}

// -----

// attention (C6)
func.func @attention(%q: tensor<2x5x4x6xf32>, %starts: tensor<2x5xi32>) {
  // expected-error@+1 {{'graph.attention' op has document_starts and is not causal}}
  %0 = graph.attention %q, %q, %q, 1.0 within %starts : tensor<2x5xi32> : tensor<2x5x4x6xf32>, tensor<2x5x4x6xf32>
  return
}

// -----

// attention (C6)
func.func @attention(%q: tensor<2x5x4x6xf32>, %starts: tensor<5xi32>) {
  // expected-error@+1 {{'graph.attention' op document_starts are not (2, 5): 'tensor<5xi32>'}}
  %0 = graph.attention %q, %q, %q, 1.0 within %starts : tensor<5xi32> {causal} : tensor<2x5x4x6xf32>, tensor<2x5x4x6xf32>
  return
}

// -----

// attention (C7)
func.func @attention(%q: tensor<2x5x4x6xf32>) {
  // expected-error@+1 {{'graph.attention' op softcap is negative or not finite: -2.000000e+00}}
  %0 = graph.attention %q, %q, %q, 1.0 {softcap = -2.0} : tensor<2x5x4x6xf32>, tensor<2x5x4x6xf32>
  return
}

// -----

// attention_grad (C1)
func.func @attention_grad(%q: tensor<2x5x4x6xf32>, %lse: tensor<2x4x5xf32>) {
  // expected-error @+1 {{'graph.attention_grad' op softcap is negative or not finite: INF}}
  %0, %1, %2 = graph.attention_grad %q, %q, %q, %q, %lse, %q, 1.0 {softcap = 0x7FF0000000000000 : f64} : tensor<2x5x4x6xf32>, tensor<2x5x4x6xf32>, tensor<2x4x5xf32>
  return
}

// -----

// attention_grad (C1)
func.func @attention_grad(%q: tensor<2x5x4x6xf32>, %lse: tensor<2x5x4xf32>) {
  // expected-error @+1 {{row statistics are not (2, 4, 5): 'tensor<2x5x4xf32>'}}
  %0, %1, %2 = graph.attention_grad %q, %q, %q, %q, %lse, %q, 1.0 : tensor<2x5x4x6xf32>, tensor<2x5x4x6xf32>, tensor<2x5x4xf32>
  return
}

// -----

// attention_grad (C2)
func.func @attention_grad(%q: tensor<2x5x4x6xf32>, %k: tensor<2x5x2x6xf32>, %lse: tensor<2x4x5xf32>) {
  // expected-error @+1 {{failed to verify that all of {k, v, dk, dv} have same type}}
  %0, %1, %2 = "graph.attention_grad"(%q, %k, %k, %q, %lse, %q) {scale = 1.0 : f64} :
    (tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x5x2x6xf32>, tensor<2x5x4x6xf32>, tensor<2x4x5xf32>, tensor<2x5x4x6xf32>)
    -> (tensor<2x5x4x6xf32>, tensor<2x5x4x6xf32>, tensor<2x5x4x6xf32>)
  return
}

// -----

// embedding (C1)
func.func @embedding(%t: tensor<11xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{table is not 2-D: 'tensor<11xf32>'}}
  %0 = graph.embedding %t, %i : tensor<11xf32>, tensor<3xi32> -> tensor<3xf32>
  return
}

// -----

// embedding (C2)
func.func @embedding(%t: tensor<11x4xf32>, %i: tensor<2x3xi32>) {
  // expected-error @+1 {{rows do not have the indices' shape plus 4: 'tensor<6x4xf32>' for 'tensor<2x3xi32>'}}
  %0 = graph.embedding %t, %i : tensor<11x4xf32>, tensor<2x3xi32> -> tensor<6x4xf32>
  return
}

// -----

// embedding (C3)
func.func @embedding(%t: tensor<11x4xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{element types of table and result differ: 'f32' and 'bf16'}}
  %0 = graph.embedding %t, %i : tensor<11x4xf32>, tensor<3xi32> -> tensor<3x4xbf16>
  return
}

// -----

// embedding (C4)
func.func @padding(%table: tensor<5x2xf32>, %tokens: tensor<3xi32>) {
  // expected-error @+1 {{padding row 5 is outside of the table}}
  %0 = graph.embedding %table, %tokens {padding = 5 : i64} : tensor<5x2xf32>, tensor<3xi32> -> tensor<3x2xf32>
  return
}

// -----

// embedding_grad (C1)
func.func @embedding_grad(%i: tensor<3xi32>, %dy: tensor<3x4xf32>) {
  // expected-error @+1 {{table is not 2-D: 'tensor<44xf32>'}}
  %0 = graph.embedding_grad %i, %dy : tensor<3xi32>, tensor<3x4xf32> -> tensor<44xf32>
  return
}

// -----

// embedding_grad (C2)
func.func @embedding_grad(%i: tensor<3xi32>, %dy: tensor<3x5xf32>) {
  // expected-error @+1 {{rows do not have the indices' shape plus 4: 'tensor<3x5xf32>' for 'tensor<3xi32>'}}
  %0 = graph.embedding_grad %i, %dy : tensor<3xi32>, tensor<3x5xf32> -> tensor<11x4xf32>
  return
}

// -----

// cross_entropy (C1)
func.func @cross_entropy(%x: tensor<6x11xf32>, %t: tensor<5xi32>) {
  // expected-error @+1 {{targets are not 1-D of 6 rows: 'tensor<5xi32>'}}
  %0 = graph.cross_entropy %x, %t : tensor<6x11xf32>, tensor<5xi32> -> tensor<f32>
  return
}

// -----

// cross_entropy (C2)
func.func @cross_entropy(%x: tensor<6x11xf32>, %t: tensor<6xi32>) {
  // expected-error @+1 {{loss is neither a scalar nor 1-D of a number that divides 6 rows: 'tensor<4xf32>'}}
  %0 = graph.cross_entropy %x, %t : tensor<6x11xf32>, tensor<6xi32> -> tensor<4xf32>
  return
}

// -----

// cross_entropy (C3)
func.func @cross_entropy(%x: tensor<6x11xf32>, %t: tensor<6xi32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{weights are not 1-D of 6 rows: 'tensor<3xf32>'}}
  %0 = graph.cross_entropy %x, %t weights %w : tensor<3xf32> : tensor<6x11xf32>, tensor<6xi32> -> tensor<f32>
  return
}

// -----

// cross_entropy_grad (C1)
func.func @cross_entropy_grad(%x: tensor<6x11xf32>, %t: tensor<6xi32>, %g: tensor<f32>, %w: tensor<2x3xf32>) {
  // expected-error @+1 {{weights are not 1-D of 6 rows: 'tensor<2x3xf32>'}}
  %0 = graph.cross_entropy_grad %x, %t, %g weights %w : tensor<2x3xf32> : tensor<6x11xf32>, tensor<6xi32>, tensor<f32>
  return
}

// -----

// cross_entropy_grad (C1)
func.func @cross_entropy_grad(%x: tensor<6x11xf32>, %t: tensor<6xi32>, %g: tensor<6xf32>) {
  // expected-error @+1 {{dloss is not a scalar: 'tensor<6xf32>'}}
  %0 = graph.cross_entropy_grad %x, %t, %g : tensor<6x11xf32>, tensor<6xi32>, tensor<6xf32>
  return
}

// -----

// linear_cross_entropy (C1)
func.func @linear(%x: tensor<6x4xf32>, %h: tensor<11x5xf32>, %t: tensor<6xi32>) {
  // expected-error @+1 {{widths of hidden and head differ: 4 and 5}}
  %0 = graph.linear_cross_entropy %x, %h, %t : tensor<6x4xf32>, tensor<11x5xf32>, tensor<6xi32> -> tensor<f32>
  return
}

// -----

// linear_cross_entropy (C2)
func.func @linear(%x: tensor<6x4xf32>, %h: tensor<11x4xf32>, %t: tensor<2x3xi32>) {
  // expected-error @+1 {{targets are not 1-D of 6 rows: 'tensor<2x3xi32>'}}
  %0 = graph.linear_cross_entropy %x, %h, %t : tensor<6x4xf32>, tensor<11x4xf32>, tensor<2x3xi32> -> tensor<f32>
  return
}

// -----

// linear_cross_entropy (C3)
func.func @linear(%x: tensor<6x4xf32>, %h: tensor<11x4xf32>, %t: tensor<6xi32>, %s: tensor<f32>) {
  // expected-error @+1 {{cotangents are present without scale, or scale without them}}
  %0 = graph.linear_cross_entropy %x, %h, %t scale %s : tensor<f32> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>
  return
}

// -----

// linear_cross_entropy (C5)
func.func @linear(%x: tensor<6x4xf32>, %h: tensor<11x4xf32>, %t: tensor<6xi32>) {
  // expected-error @+1 {{logit_scale and softcap are not finite, or logit_scale is 0: 0.000000e+00 and 0.000000e+00}}
  %0 = graph.linear_cross_entropy %x, %h, %t {logit_scale = 0.0} : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>
  return
}

// -----

// linear_cross_entropy (C4)
func.func @linear(%x: tensor<6x4xf32>, %h: tensor<11x4xf32>, %t: tensor<6xi32>) {
  // expected-error @+1 {{loss is neither a scalar nor 1-D of a number that divides 6 rows: 'tensor<2x3xf32>'}}
  %0 = graph.linear_cross_entropy %x, %h, %t : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<2x3xf32>
  return
}

// -----

// linear_cross_entropy (C4)
func.func @linear(%x: tensor<6x4xf32>, %h: tensor<11x4xf32>, %t: tensor<6xi32>, %s: tensor<f32>) {
  // expected-error @+1 {{loss is not a scalar: 'tensor<2xf32>'}}
  %0:3 = graph.linear_cross_entropy %x, %h, %t scale %s : tensor<f32> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<2xf32>, tensor<6x4xf32> and tensor<11x4xf32>
  return
}

// -----

// linear_cross_entropy (C4)
func.func @linear(%x: tensor<6x4xbf16>, %h: tensor<11x4xbf16>, %t: tensor<6xi32>) {
  // expected-error @+1 {{loss is neither f32 nor f64: 'bf16'}}
  %0 = graph.linear_cross_entropy %x, %h, %t : tensor<6x4xbf16>, tensor<11x4xbf16>, tensor<6xi32> -> tensor<bf16>
  return
}

// -----

// linear_cross_entropy (C6)
func.func @linear(%x: tensor<6x4xf32>, %h: tensor<11x4xf32>, %t: tensor<6xi32>, %w: tensor<6xbf16>) {
  // expected-error @+1 {{weights are neither f32 nor f64: 'bf16'}}
  %0 = graph.linear_cross_entropy %x, %h, %t weights %w : tensor<6xbf16> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>
  return
}

// -----

// rms_norm_grad (C3)
func.func @rms_norm_grad(%x: tensor<2x3xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{the weight's cotangent is not a 'tensor<3xf32>' or wider: 'tensor<3xbf16>'}}
  %0, %1 = graph.rms_norm_grad %x, %w, %x, 1.0e-5 : tensor<2x3xf32>, tensor<3xf32> -> tensor<3xbf16>
  return
}

// -----

// join_master (C1)
func.func @join(%p: tensor<8xbf16>, %r: tensor<8xi32>) {
  // expected-error @+1 {{operand type 'i32' should be 'i16' (C1)}}
  %0 = graph.join_master %p, %r : tensor<8xbf16>, tensor<8xi32> -> tensor<8xf32>
  return
}

// -----

// split_master (C1)
func.func @split(%w: tensor<8xf32>) {
  // expected-error @+1 {{result type 'f16' should be 'bf16' (C1)}}
  %0, %1 = graph.split_master %w : tensor<8xf32> -> tensor<8xf16>, tensor<8xi16>
  return
}

// -----

// stochastic_round (C1)
func.func @round(%w: tensor<8xf32>, %i: tensor<8xi32>) {
  // expected-error @+1 {{operand type 'i32' should be 'i64' (C1, C2)}}
  %0 = graph.stochastic_round %w, %i, %w, %w stream 0 : tensor<8xf32>, tensor<8xi32>, tensor<8xf32> -> tensor<8xbf16>
  return
}

// -----

// sum_squares (C1)
func.func @sum_squares(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{operand is not 1-D: 'tensor<2x3xf32>'}}
  %0 = graph.sum_squares %x : tensor<2x3xf32> -> tensor<f32>
  return
}

// -----

// sum_squares (C2)
func.func @sum_squares(%x: tensor<6xf32>) {
  // expected-error @+1 {{result is not a scalar: 'tensor<1xf32>'}}
  %0 = graph.sum_squares %x : tensor<6xf32> -> tensor<1xf32>
  return
}

// -----

// fusion (C1)
func.func @fusion(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 1 operands and 0 block arguments}}
  graph.fusion "empty"(%x) : (tensor<4xf32>) -> () {
    graph.yield
  }
  return
}

// -----

// fusion (C2)
func.func @fusion(%x: tensor<4xf32>) {
  // expected-error @+1 {{has 1 results and yields 0 values}}
  %0 = graph.fusion "empty"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    graph.yield
  }
  return
}

// -----

// fusion (C3)
func.func @fusion(%x: tensor<4xf32>) {
  // expected-error @+1 {{holds an op of another dialect}}
  %0 = graph.fusion "alien"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    // expected-note @+1 {{'func.call' is here}}
    %1 = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  }
  return
}
func.func private @f(tensor<4xf32>) -> tensor<4xf32>

// -----

// dequantize: format
func.func @dequantize(%x: tensor<1140xi8>) {
  // expected-error @+2 {{failed to parse Graph_WeightFormatAttr}}
  // expected-error @+1 {{expected one of [nf4, int8, nf4_single, mxfp4] for format of a weight in fewer bits, got: fp4}}
  %0 = graph.dequantize %x format <fp4> : tensor<1140xi8> -> tensor<4x8xf32>
  return
}

// -----

// dequantize (C1)
func.func @dequantize(%x: tensor<1140xi8>) {
  // expected-error @+1 {{does not give a matrix: 'tensor<32xf32>'}}
  %0 = graph.dequantize %x format <nf4> : tensor<1140xi8> -> tensor<32xf32>
  return
}

// -----

// dequantize (C2)
func.func @dequantize(%x: tensor<1140xi8>) {
  // expected-error @+1 {{reads 'tensor<1140xi8>', 'tensor<4x8xf32>' needs 48 bytes}}
  %0 = graph.dequantize %x format <int8> : tensor<1140xi8> -> tensor<4x8xf32>
  return
}

// -----

// fp8_scales (C1)
func.func @fp8_scales(%m: tensor<8xf32>, %f: tensor<1xf32>) {
  // expected-error @+1 {{makes 'tensor<8xf32>' of 'tensor<8xf32>' and 'tensor<1xf32>'}}
  %s = graph.fp8_scales %m largest %f : tensor<8xf32>, tensor<1xf32>
  return
}

// -----

// encode_fp8 (C1)
func.func @encode_fp8(%x: tensor<32x8xbf16>, %s: tensor<2xf32>) {
  // expected-error @+1 {{reads 'tensor<32x8xbf16>', which is not a matrix of sizes that are multiples of 16}}
  %m, %q = graph.encode_fp8 %x scale %s {by_rows} : tensor<32x8xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x8xf8E5M2>
  return
}

// -----

// encode_fp8 (C3)
func.func @encode_fp8(%x: tensor<32x16xbf16>, %s: tensor<2xf32>) {
  // expected-error @+1 {{gives 1 matrices of codes, 2 are asked for}}
  %m, %q = graph.encode_fp8 %x scale %s {by_rows, by_columns} : tensor<32x16xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x16xf8E5M2>
  return
}

// -----

// encode_fp8 (C4)
func.func @encode_fp8(%x: tensor<32x16xbf16>, %s: tensor<2xf32>) {
  // expected-error @+1 {{gives codes 'tensor<32x16xf8E5M2>' of 'tensor<32x16xbf16>'}}
  %m, %q = graph.encode_fp8 %x scale %s {by_columns} : tensor<32x16xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x16xf8E5M2>
  return
}

// -----

// encode_fp8 (C5)
func.func @encode_fp8(%x: tensor<32x16xbf16>, %s: tensor<2xf32>) {
  // expected-error @+1 {{gives codes of two formats: 'tensor<32x16xf8E5M2>', 'tensor<16x32xf8E4M3FN>'}}
  %m, %q:2 = graph.encode_fp8 %x scale %s {by_rows, by_columns} : tensor<32x16xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x16xf8E5M2>, tensor<16x32xf8E4M3FN>
  return
}

// -----

// encode_fp8 (C6)
func.func @encode_fp8(%x: tensor<32x16xbf16>, %s: tensor<4xf32>) {
  // expected-error @+1 {{reads the scale 'tensor<4xf32>' and gives the absolute maximum 'tensor<1xf32>', not two elements and one}}
  %m, %q = graph.encode_fp8 %x scale %s {by_rows} : tensor<32x16xbf16>, tensor<4xf32> -> tensor<1xf32>, tensor<32x16xf8E5M2>
  return
}

// -----

// fp8_codes (C1)
func.func @fp8_codes(%x: tensor<32x16xbf16>, %s: tensor<32x16xbf16>) {
  // expected-error @+1 {{gives 'tensor<32x16xf8E5M2>' of 'tensor<32x16xbf16>' and 'tensor<32x16xbf16>'}}
  %q = graph.fp8_codes %x, %s : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<32x16xf8E5M2>
  return
}

// -----

// note_codes (C1)
func.func @note_codes(%q: tensor<32x16xf8E5M2>, %a: tensor<32x1xbf16>) {
  // expected-error @+1 {{gives 'tensor<32x16xf8E5M2>' as the transposed 'tensor<32x16xf8E5M2>'}}
  %m, %t = graph.note_codes %q amax %a : tensor<32x16xf8E5M2>, tensor<32x1xbf16> -> tensor<1xf32>, tensor<32x16xf8E5M2>
  return
}

// -----

// note_codes (C2)
func.func @note_codes(%q: tensor<32x16xf8E5M2>, %a: tensor<8x1xbf16>) {
  // expected-error @+1 {{gives the absolute maximum 'tensor<1xf32>' of 'tensor<8x1xbf16>'}}
  %m, %t = graph.note_codes %q amax %a : tensor<32x16xf8E5M2>, tensor<8x1xbf16> -> tensor<1xf32>, tensor<16x32xf8E5M2>
  return
}

// -----

// quantize_fp8 (C1)
func.func @quantize_fp8(%x: tensor<32x8xbf16>) {
  // expected-error @+1 {{reads 'tensor<32x8xbf16>', which is not a matrix of sizes that are multiples of 16}}
  %s, %q = graph.quantize_fp8 %x {by_rows} : tensor<32x8xbf16> -> tensor<2xf32>, tensor<32x8xf8E5M2>
  return
}

// -----

// quantize_fp8 (C2)
func.func @quantize_fp8(%x: tensor<32x16xbf16>) {
  // expected-error @+1 {{gives 'tensor<1xf32>' as the inverse of a scale and the scale, not two elements}}
  %s, %q = graph.quantize_fp8 %x {by_rows} : tensor<32x16xbf16> -> tensor<1xf32>, tensor<32x16xf8E5M2>
  return
}

// -----

// quantize_fp8 (C3)
func.func @quantize_fp8(%x: tensor<32x16xbf16>) {
  // expected-error @+1 {{gives 1 matrices of codes, 2 are asked for}}
  %s, %q = graph.quantize_fp8 %x {by_rows, by_columns} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E5M2>
  return
}

// -----

// quantize_fp8 (C4)
func.func @quantize_fp8(%x: tensor<32x16xbf16>) {
  // expected-error @+1 {{gives codes 'tensor<32x16xf8E5M2>' of 'tensor<32x16xbf16>'}}
  %s, %q = graph.quantize_fp8 %x {by_columns} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E5M2>
  return
}

// -----

// quantize_fp8 (C5)
func.func @quantize_fp8(%x: tensor<32x16xbf16>) {
  // expected-error @+1 {{gives codes of two formats: 'tensor<32x16xf8E5M2>', 'tensor<16x32xf8E4M3FN>'}}
  %s, %q:2 = graph.quantize_fp8 %x {by_rows, by_columns} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E5M2>, tensor<16x32xf8E4M3FN>
  return
}

// -----

// quantize_fp8 (C6)
func.func @quantize_fp8(%x: tensor<32x16xbf16>, %m: tensor<32x1xf32>) {
  // expected-error @+1 {{reads absolute maxima 'tensor<32x1xf32>' of 'tensor<32x16xbf16>'}}
  %s, %q = graph.quantize_fp8 %x amax %m : tensor<32x1xf32> {by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E5M2>
  return
}

// -----

// quantize_fp8 (C6)
func.func @quantize_fp8(%x: tensor<32x16xbf16>, %m: tensor<8xbf16>) {
  // expected-error @+1 {{reads absolute maxima 'tensor<8xbf16>' of 'tensor<32x16xbf16>'}}
  %s, %q = graph.quantize_fp8 %x amax %m : tensor<8xbf16> {by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E5M2>
  return
}

// -----

// row_amax (C1)
func.func @row_amax(%x: tensor<2x32x16xbf16>) {
  // expected-error @+1 {{reads 'tensor<2x32x16xbf16>', which is not a matrix}}
  %m = graph.row_amax %x : tensor<2x32x16xbf16> -> tensor<64x1xbf16>
  return
}

// -----

// row_amax (C2)
func.func @row_amax(%x: tensor<32x16xbf16>) {
  // expected-error @+1 {{gives absolute maxima 'tensor<32x1xf32>' of the rows of 'tensor<32x16xbf16>'}}
  %m = graph.row_amax %x : tensor<32x16xbf16> -> tensor<32x1xf32>
  return
}

// -----

// transpose_codes (C1)
func.func @transpose_codes(%x: tensor<40x16xf8E4M3FN>) {
  // expected-error @+1 {{reads 'tensor<40x16xf8E4M3FN>', which is not a matrix of sizes that are multiples of 16}}
  %m = graph.transpose_codes %x : tensor<40x16xf8E4M3FN> -> tensor<16x40xf8E4M3FN>
  return
}

// -----

// transpose_codes (C2)
func.func @transpose_codes(%x: tensor<32x16xf8E4M3FN>) {
  // expected-error @+1 {{gives 'tensor<32x16xf8E4M3FN>' as the transposed 'tensor<32x16xf8E4M3FN>'}}
  %m = graph.transpose_codes %x : tensor<32x16xf8E4M3FN> -> tensor<32x16xf8E4M3FN>
  return
}

// -----

// scaled_matmul (C1)
func.func @scaled_matmul(%a: tensor<2x32x16xf8E4M3FN>, %s: tensor<2xf32>) {
  // expected-error @+1 {{multiplies no matrices: lhs 'tensor<2x32x16xf8E4M3FN>', rhs 'tensor<2x32x16xf8E4M3FN>', result 'tensor<2x32x32xbf16>'}}
  %y = graph.scaled_matmul %a, %a scales %s, %s : tensor<2x32x16xf8E4M3FN>, tensor<2x32x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<2x32x32xbf16>
  return
}

// -----

// scaled_matmul (C2)
func.func @scaled_matmul(%a: tensor<32x16xf8E4M3FN>, %b: tensor<16x32xf8E4M3FN>, %s: tensor<2xf32>) {
  // expected-error @+1 {{contraction sizes differ: lhs 16, rhs 32}}
  %y = graph.scaled_matmul %a, %b scales %s, %s : tensor<32x16xf8E4M3FN>, tensor<16x32xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x16xbf16>
  return
}

// -----

// scaled_matmul (C3)
func.func @scaled_matmul(%a: tensor<32x16xf8E4M3FN>, %s: tensor<2xf32>) {
  // expected-error @+1 {{result shape differs from that of the product: 'tensor<32x16xbf16>' of 'tensor<32x16xf8E4M3FN>' and 'tensor<32x16xf8E4M3FN>'}}
  %y = graph.scaled_matmul %a, %a scales %s, %s : tensor<32x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x16xbf16>
  return
}

// -----

// scaled_matmul (C4)
func.func @scaled_matmul(%a: tensor<32x16xf8E5M2>, %s: tensor<2xf32>) {
  // expected-error @+1 {{multiplies e5m2 by e5m2, which libraries do not}}
  %y = graph.scaled_matmul %a, %a scales %s, %s : tensor<32x16xf8E5M2>, tensor<32x16xf8E5M2>, tensor<2xf32>, tensor<2xf32> -> tensor<32x32xbf16>
  return
}

// -----

// scaled_matmul (C5)
func.func @scaled_matmul(%a: tensor<32x16xf8E4M3FN>, %s: tensor<3xf32>) {
  // expected-error @+1 {{reads 'tensor<3xf32>' as the inverse of a scale and the scale, not two elements}}
  %y = graph.scaled_matmul %a, %a scales %s, %s : tensor<32x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<3xf32>, tensor<3xf32> -> tensor<32x32xbf16>
  return
}

// -----

// matmul_add (C1)
func.func @matmul_add(%a: tensor<4xbf16>, %c: tensor<4x4xbf16>) {
  // expected-error @+1 {{ranks are not equal and at least 2: lhs 1, rhs 2}}
  %y = graph.matmul_add %a, %c, %c : tensor<4xbf16>, tensor<4x4xbf16>, tensor<4x4xbf16>
  return
}

// -----

// matmul_add (C2)
func.func @matmul_add(%a: tensor<2x4x4xbf16>, %b: tensor<3x4x4xbf16>) {
  // expected-error @+1 {{leading dimensions differ: lhs 'tensor<2x4x4xbf16>', rhs 'tensor<3x4x4xbf16>'}}
  %y = graph.matmul_add %a, %b, %a : tensor<2x4x4xbf16>, tensor<3x4x4xbf16>, tensor<2x4x4xbf16>
  return
}

// -----

// matmul_add (C3)
func.func @matmul_add(%a: tensor<8x4xbf16>, %b: tensor<4x6xbf16>, %c: tensor<8x6xbf16>) {
  // expected-error @+1 {{contraction sizes differ: lhs 4, rhs 6}}
  %y = graph.matmul_add %a, %b, %c {transpose_b} : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<8x6xbf16>
  return
}

// -----

// matmul_add (C4)
func.func @matmul_add(%a: tensor<8x4xbf16>, %b: tensor<4x6xbf16>, %c: tensor<6xbf16>) {
  // expected-error @+1 {{what is added has another shape than the product: 'tensor<6xbf16>' and 'tensor<8x6xbf16>'}}
  %y = graph.matmul_add %a, %b, %c : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<6xbf16>
  return
}

// -----

// matmul_add (C5)
func.func @matmul_add(%a: tensor<8x4xf32>, %b: tensor<4x6xf32>, %c: tensor<8x6xf32>) {
  // expected-error @+1 {{element types are not one of bf16 and f16: 'tensor<8x4xf32>', 'tensor<4x6xf32>', 'tensor<8x6xf32>'}}
  %y = graph.matmul_add %a, %b, %c : tensor<8x4xf32>, tensor<4x6xf32>, tensor<8x6xf32>
  return
}

// -----

// matmul_add (C6)
func.func @matmul_add(%a: tensor<2x8x4xbf16>, %b: tensor<2x4x6xbf16>, %c: tensor<2x8x6xbf16>, %v: tensor<6xbf16>) {
  // expected-error @+1 {{has a bias, and rank 3, not 2}}
  %y = graph.matmul_add %a, %b, %c bias %v : tensor<6xbf16> : tensor<2x8x4xbf16>, tensor<2x4x6xbf16>, tensor<2x8x6xbf16>
  return
}

// -----

// matmul_add (C6)
func.func @matmul_add(%a: tensor<8x4xbf16>, %b: tensor<4x6xbf16>, %c: tensor<8x6xbf16>, %v: tensor<8xbf16>) {
  // expected-error @+1 {{the bias is not a vector of 6 elements of type 'bf16': 'tensor<8xbf16>'}}
  %y = graph.matmul_add %a, %b, %c bias %v : tensor<8xbf16> : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<8x6xbf16>
  return
}

// -----

// matmul_add (C6)
func.func @matmul_add(%a: tensor<8x4xbf16>, %b: tensor<4x6xbf16>, %c: tensor<8x6xbf16>, %v: tensor<6xf32>) {
  // expected-error @+1 {{the bias is not a vector of 6 elements of type 'bf16': 'tensor<6xf32>'}}
  %y = graph.matmul_add %a, %b, %c bias %v : tensor<6xf32> : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<8x6xbf16>
  return
}

// -----

// matmul_bias (C1)
func.func @matmul_bias(%a: tensor<2x8x4xbf16>, %b: tensor<4x6xbf16>, %v: tensor<6xbf16>) {
  // expected-error @+1 {{ranks are not 2: lhs 3, rhs 2, result 2}}
  %y = graph.matmul_bias %a, %b, %v : tensor<2x8x4xbf16>, tensor<4x6xbf16>, tensor<6xbf16> -> tensor<8x6xbf16>
  return
}

// -----

// matmul_bias (C2)
func.func @matmul_bias(%a: tensor<8x4xbf16>, %b: tensor<4x6xbf16>, %v: tensor<4xbf16>) {
  // expected-error @+1 {{contraction sizes differ: lhs 4, rhs 6}}
  %y = graph.matmul_bias %a, %b, %v {transpose_b} : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<4xbf16> -> tensor<8x4xbf16>
  return
}

// -----

// matmul_bias (C3)
func.func @matmul_bias(%a: tensor<8x4xbf16>, %b: tensor<4x6xbf16>, %v: tensor<6xbf16>) {
  // expected-error @+1 {{result shape differs from that of the product: 'tensor<6x8xbf16>' and 'tensor<8x6xbf16>'}}
  %y = graph.matmul_bias %a, %b, %v : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<6xbf16> -> tensor<6x8xbf16>
  return
}

// -----

// matmul_bias (C4)
func.func @matmul_bias(%a: tensor<8x4xbf16>, %b: tensor<4x6xbf16>, %v: tensor<8x6xbf16>) {
  // expected-error @+1 {{the bias is not a vector of 6: 'tensor<8x6xbf16>'}}
  %y = graph.matmul_bias %a, %b, %v : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<8x6xbf16> -> tensor<8x6xbf16>
  return
}

// -----

// matmul_bias (C5)
func.func @matmul_bias(%a: tensor<8x4xbf16>, %b: tensor<4x6xbf16>, %v: tensor<6xf32>) {
  // expected-error @+1 {{element types are not one of bf16 and f16: 'tensor<8x4xbf16>', 'tensor<4x6xbf16>', 'tensor<6xf32>' and 'tensor<8x6xbf16>'}}
  %y = graph.matmul_bias %a, %b, %v : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<6xf32> -> tensor<8x6xbf16>
  return
}

// -----

// matmul_gelu (C1)
func.func @matmul_gelu(%a: tensor<2x8x4xbf16>, %b: tensor<4x16xbf16>, %v: tensor<16xbf16>) {
  // expected-error @+1 {{ranks are not 2: lhs 3, rhs 2, result 2}}
  %y = graph.matmul_gelu %a, %b, %v : tensor<2x8x4xbf16>, tensor<4x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
  return
}

// -----

// matmul_gelu (C6)
func.func @matmul_gelu(%a: tensor<8x4xbf16>, %b: tensor<4x6xbf16>, %v: tensor<6xbf16>) {
  // expected-error @+1 {{the result has 6 columns, no multiple of 8}}
  %y = graph.matmul_gelu %a, %b, %v : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<6xbf16> -> tensor<8x6xbf16>
  return
}

// -----

// matmul_gelu (C7)
func.func @matmul_gelu(%a: tensor<8x4xbf16>, %b: tensor<4x16xbf16>, %v: tensor<16xbf16>) {
  // expected-error @+1 {{types of sums and result differ: 'tensor<8x16xf32>' and 'tensor<8x16xbf16>'}}
  %y, %s = graph.matmul_gelu %a, %b, %v : tensor<8x4xbf16>, tensor<4x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>, tensor<8x16xf32>
  return
}

// -----

// random_bits (C1)
func.func @random_bits(%w: tensor<8xf32>, %i: tensor<8xi64>) {
  // expected-error @+1 {{result type 'i64' should be 'i32' (C1)}}
  %0 = graph.random_bits %i, %i, %i, %w, %w columns 8 stream 0 : tensor<8xi64>, tensor<8xf32> -> tensor<8xi64>
  return
}

// -----

// dropout (C1)
func.func @dropout(%x: tensor<8xf32>) {
  // expected-error @+1 {{operand is not a float tensor of rank 2: 'tensor<8xf32>'}}
  %0 = graph.dropout %x {module = "a", probability = 0.5} : tensor<8xf32>
  return
}

// -----

// dropout (C2)
func.func @dropout(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{probability is not between 0 and 1: 1.000000e+00}}
  %0 = graph.dropout %x {module = "a", probability = 1.0} : tensor<2x8xf32>
  return
}

// -----

// optimizer_step (C8)
func.func @rates(%p: tensor<7xf32>, %g: tensor<7xf32>, %m: tensor<7xf32>, %h: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{'graph.optimizer_step' op has not as many ends of runs as factors of the learning rate}}
  %a, %b = graph.optimizer_step "sgd" %p, %g keeps(%m) by(%h, %s, %go) decayed 4 {graph.rate_ends = array<i64: 3, 7>, graph.rate_factors = array<f64: 2.0>}
      : (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<7xf32>, tensor<7xf32>)
  return
}

// -----

// optimizer_step (C8)
func.func @rates(%p: tensor<7xf32>, %g: tensor<7xf32>, %m: tensor<7xf32>, %h: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{'graph.optimizer_step' op the ends of runs of one learning rate do not ascend}}
  %a, %b = graph.optimizer_step "sgd" %p, %g keeps(%m) by(%h, %s, %go) decayed 4 {graph.rate_ends = array<i64: 7, 7>, graph.rate_factors = array<f64: 2.0, 1.0>}
      : (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<7xf32>, tensor<7xf32>)
  return
}

// -----

// optimizer_step (C8)
func.func @rates(%p: tensor<7xf32>, %g: tensor<7xf32>, %m: tensor<7xf32>, %h: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{'graph.optimizer_step' op a factor of the learning rate is 0.000000e+00, it should be finite and positive}}
  %a, %b = graph.optimizer_step "sgd" %p, %g keeps(%m) by(%h, %s, %go) decayed 4 {graph.rate_ends = array<i64: 3, 7>, graph.rate_factors = array<f64: 2.0, 0.0>}
      : (tensor<7xf32>, tensor<7xf32>, tensor<7xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<7xf32>, tensor<7xf32>)
  return
}
