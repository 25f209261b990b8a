// RUN: ztc-opt %s --ztc-fuse-biases --split-input-file | FileCheck %s

// In the order of either operand, and whoever reads the sum.
// CHECK-LABEL: func.func @layers(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x8xbf16>, %[[W:[^:]*]]: tensor<16x8xbf16>, %[[V:[^:]*]]: tensor<16xbf16>
// CHECK-NEXT:    %[[H:.*]] = graph.matmul_bias %[[X]], %[[W]], %[[V]] {transpose_b} : tensor<8x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
// CHECK-NEXT:    %[[E:.*]] = graph.exp %[[H]]
// CHECK-NEXT:    %[[O:.*]] = graph.matmul_bias %[[X]], %[[W]], %[[V]] {transpose_b}
// CHECK-NEXT:    return %[[E]], %[[O]]
func.func @layers(%x: tensor<8x8xbf16>, %w: tensor<16x8xbf16>, %v: tensor<16xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>) {
  %y = graph.matmul %x, %w {transpose_b} : tensor<8x8xbf16>, tensor<16x8xbf16> -> tensor<8x16xbf16>
  %rows = graph.broadcast %v : tensor<16xbf16> -> tensor<8x16xbf16>
  %h = graph.add %y, %rows : tensor<8x16xbf16>
  %e = graph.exp %h : tensor<8x16xbf16>
  %z = graph.matmul %x, %w {transpose_b} : tensor<8x8xbf16>, tensor<16x8xbf16> -> tensor<8x16xbf16>
  %o = graph.add %rows, %z : tensor<8x16xbf16>
  return %e, %o : tensor<8x16xbf16>, tensor<8x16xbf16>
}

// A row that is generated with a cache has its numbers in other shapes than the whole text: shapes are looked through. So is the weight of a Conv1D, which is
// not transposed.
// CHECK-LABEL: func.func @shapes(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x8xbf16>, %[[W:[^:]*]]: tensor<8x16xbf16>, %[[V:[^:]*]]: tensor<16xbf16>
// CHECK-NEXT:    %[[H:.*]] = graph.matmul_bias %[[X]], %[[W]], %[[V]] : tensor<8x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
// CHECK-NEXT:    %[[O:.*]] = graph.reshape %[[H]] : tensor<8x16xbf16> -> tensor<2x4x16xbf16>
// CHECK-NEXT:    return %[[O]]
func.func @shapes(%x: tensor<8x8xbf16>, %w: tensor<8x16xbf16>, %v: tensor<16xbf16>) -> tensor<2x4x16xbf16> {
  %y = graph.matmul %x, %w : tensor<8x8xbf16>, tensor<8x16xbf16> -> tensor<8x16xbf16>
  %z = graph.reshape %y : tensor<8x16xbf16> -> tensor<2x4x16xbf16>
  %rows = graph.broadcast %v : tensor<16xbf16> -> tensor<2x4x16xbf16>
  %h = graph.add %rows, %z : tensor<2x4x16xbf16>
  return %h : tensor<2x4x16xbf16>
}

// Rows of several texts: the vector is one row before it is all.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<3x8xbf16>, %[[W:[^:]*]]: tensor<8x16xbf16>, %[[V:[^:]*]]: tensor<16xbf16>
// CHECK-NEXT:    %[[H:.*]] = graph.matmul_bias %[[X]], %[[W]], %[[V]] : tensor<3x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16> -> tensor<3x16xbf16>
// CHECK-NEXT:    %[[O:.*]] = graph.reshape %[[H]] : tensor<3x16xbf16> -> tensor<3x1x16xbf16>
// CHECK-NEXT:    return %[[O]]
func.func @rows(%x: tensor<3x8xbf16>, %w: tensor<8x16xbf16>, %v: tensor<16xbf16>) -> tensor<3x1x16xbf16> {
  %y = graph.matmul %x, %w : tensor<3x8xbf16>, tensor<8x16xbf16> -> tensor<3x16xbf16>
  %z = graph.reshape %y : tensor<3x16xbf16> -> tensor<3x1x16xbf16>
  %row = graph.broadcast %v : tensor<16xbf16> -> tensor<1x16xbf16>
  %one = graph.reshape %row : tensor<1x16xbf16> -> tensor<1x1x16xbf16>
  %all = graph.broadcast %one : tensor<1x1x16xbf16> -> tensor<3x1x16xbf16>
  %h = graph.add %z, %all : tensor<3x1x16xbf16>
  return %h : tensor<3x1x16xbf16>
}

// No vector over the product's columns: a row for each place of a text, a column; a vector over other columns than the product's; nor is a product's bias what
// is added to a product that others read.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     matmul_bias
func.func @others(%x: tensor<8x8xbf16>, %w: tensor<8x16xbf16>, %v: tensor<16xbf16>, %rows: tensor<4x16xbf16>, %column: tensor<8x1xbf16>, %u: tensor<8xbf16>)
    -> (tensor<2x4x16xbf16>, tensor<8x16xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) {
  %p = graph.matmul %x, %w : tensor<8x8xbf16>, tensor<8x16xbf16> -> tensor<8x16xbf16>
  %p3 = graph.reshape %p : tensor<8x16xbf16> -> tensor<2x4x16xbf16>
  %q = graph.broadcast %rows : tensor<4x16xbf16> -> tensor<2x4x16xbf16>
  %a = graph.add %p3, %q : tensor<2x4x16xbf16>
  %r = graph.matmul %x, %w : tensor<8x8xbf16>, tensor<8x16xbf16> -> tensor<8x16xbf16>
  %s = graph.broadcast %column : tensor<8x1xbf16> -> tensor<8x16xbf16>
  %b = graph.add %r, %s : tensor<8x16xbf16>
  %t = graph.matmul %x, %w : tensor<8x8xbf16>, tensor<8x16xbf16> -> tensor<8x16xbf16>
  %t3 = graph.reshape %t : tensor<8x16xbf16> -> tensor<16x8xbf16>
  %t4 = graph.broadcast %u : tensor<8xbf16> -> tensor<16x8xbf16>
  %c = graph.add %t3, %t4 : tensor<16x8xbf16>
  %y = graph.matmul %x, %w : tensor<8x8xbf16>, tensor<8x16xbf16> -> tensor<8x16xbf16>
  %z = graph.broadcast %v : tensor<16xbf16> -> tensor<8x16xbf16>
  %d = graph.add %y, %z : tensor<8x16xbf16>
  return %a, %b, %c, %d, %y : tensor<2x4x16xbf16>, tensor<8x16xbf16>, tensor<16x8xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>
}

// An f32 sum is as exact as the product; what a policy keeps in f32 is added there; codes of 8 bits have a product of their own; experts' biases differ.
// CHECK-LABEL: func.func @types(
// CHECK-NOT:     matmul_bias
func.func @types(%x: tensor<8x8xf32>, %w: tensor<8x16xf32>, %v: tensor<16xf32>, %n: tensor<8x8xbf16>, %m: tensor<8x16xbf16>, %u: tensor<16xbf16>, %s: tensor<2x8x8xbf16>, %e: tensor<2x8x16xbf16>)
    -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xbf16>, tensor<2x8x16xbf16>) {
  %rows = graph.broadcast %v : tensor<16xf32> -> tensor<8x16xf32>
  %y = graph.matmul %x, %w : tensor<8x8xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
  %a = graph.add %y, %rows : tensor<8x16xf32>
  %z = graph.matmul %n, %m : tensor<8x8xbf16>, tensor<8x16xbf16> -> tensor<8x16xf32>
  %b = graph.add %z, %rows : tensor<8x16xf32>
  %narrow = graph.broadcast %u : tensor<16xbf16> -> tensor<8x16xbf16>
  %p = graph.matmul %n, %m {graph.fp8 = f8E5M2} : tensor<8x8xbf16>, tensor<8x16xbf16> -> tensor<8x16xbf16>
  %c = graph.add %p, %narrow : tensor<8x16xbf16>
  %several = graph.broadcast %u : tensor<16xbf16> -> tensor<2x8x16xbf16>
  %q = graph.matmul %s, %e : tensor<2x8x8xbf16>, tensor<2x8x16xbf16> -> tensor<2x8x16xbf16>
  %d = graph.add %q, %several : tensor<2x8x16xbf16>
  return %a, %b, %c, %d : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xbf16>, tensor<2x8x16xbf16>
}

// Row lengths that are not a multiple of 16 bytes: of an operand, of the result.
// CHECK-LABEL: func.func @odd_rows(
// CHECK-NOT:     matmul_bias
func.func @odd_rows(%x: tensor<8x12xbf16>, %w: tensor<12x16xbf16>, %v: tensor<16xbf16>, %n: tensor<8x16xbf16>, %m: tensor<12x16xbf16>, %u: tensor<12xbf16>) -> (tensor<8x16xbf16>, tensor<8x12xbf16>) {
  %y = graph.matmul %x, %w : tensor<8x12xbf16>, tensor<12x16xbf16> -> tensor<8x16xbf16>
  %rows = graph.broadcast %v : tensor<16xbf16> -> tensor<8x16xbf16>
  %a = graph.add %y, %rows : tensor<8x16xbf16>
  %z = graph.matmul %n, %m {transpose_b} : tensor<8x16xbf16>, tensor<12x16xbf16> -> tensor<8x12xbf16>
  %others = graph.broadcast %u : tensor<12xbf16> -> tensor<8x12xbf16>
  %b = graph.add %z, %others : tensor<8x12xbf16>
  return %a, %b : tensor<8x16xbf16>, tensor<8x12xbf16>
}

// -----

// The forward part alone: what comes after the loss stays.
// CHECK-LABEL: func.func @microstep(
// CHECK-NEXT:    graph.matmul_bias
// CHECK:         graph.reshape
// CHECK-NEXT:    graph.matmul %
// CHECK-NEXT:    graph.broadcast
// CHECK-NEXT:    graph.add
func.func @microstep(%x: tensor<8x8xbf16>, %w: tensor<8x8xbf16>, %v: tensor<8xbf16>) -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<8x8xbf16>) attributes {graph.entry = #graph.entry<microstep>} {
  %y = graph.matmul %x, %w : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %rows = graph.broadcast %v : tensor<8xbf16> -> tensor<8x8xbf16>
  %h = graph.add %y, %rows : tensor<8x8xbf16>
  %f = graph.cast %h : tensor<8x8xbf16> -> tensor<8x8xf32>
  %sums = graph.reduce_sum %f, [1] : tensor<8x8xf32> -> tensor<8x1xf32>
  %all = graph.reduce_sum %sums, [0] : tensor<8x1xf32> -> tensor<1x1xf32>
  %loss = graph.reshape %all : tensor<1x1xf32> -> tensor<f32>
  %z = graph.matmul %h, %w : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %again = graph.broadcast %v : tensor<8xbf16> -> tensor<8x8xbf16>
  %g = graph.add %z, %again : tensor<8x8xbf16>
  return %loss, %g : tensor<f32>, tensor<8x8xbf16>
}
