// RUN: ztc-opt %s --ztc-fuse-residuals | FileCheck %s

// The residual stream is read by the norm too: it is stored, and the product adds it. In the order of either operand.
// CHECK-LABEL: func.func @residual(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x4xbf16>, %[[W:[^:]*]]: tensor<4x4xbf16>, %[[U:[^:]*]]: tensor<4xbf16>
// CHECK-NEXT:    %[[R:.*]] = graph.exp %[[X]]
// CHECK-NEXT:    %[[N:.*]] = graph.rms_norm %[[R]]
// CHECK-NEXT:    %[[H:.*]] = graph.matmul_add %[[N]], %[[W]], %[[R]] {transpose_b} : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<8x4xbf16>
// CHECK-NEXT:    %[[M:.*]] = graph.rms_norm %[[H]]
// CHECK-NEXT:    %[[O:.*]] = graph.matmul_add %[[M]], %[[W]], %[[H]] : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<8x4xbf16>
// CHECK-NEXT:    return %[[O]]
func.func @residual(%x: tensor<8x4xbf16>, %w: tensor<4x4xbf16>, %u: tensor<4xbf16>) -> tensor<8x4xbf16> {
  %r = graph.exp %x : tensor<8x4xbf16>
  %n = graph.rms_norm %r, %u, 1.0e-5 : tensor<8x4xbf16>, tensor<4xbf16>
  %y = graph.matmul %n, %w {transpose_b} : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %h = graph.add %r, %y : tensor<8x4xbf16>
  %m = graph.rms_norm %h, %u, 1.0e-5 : tensor<8x4xbf16>, tensor<4xbf16>
  %z = graph.matmul %m, %w : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %o = graph.add %z, %h : tensor<8x4xbf16>
  return %o : tensor<8x4xbf16>
}

// What one kernel can make on the way, a bias or a scaled product, is added in that kernel; so is what is added to a product that others read.
// CHECK-LABEL: func.func @kernels(
// CHECK-NOT:     matmul_add
func.func @kernels(%x: tensor<8x4xbf16>, %w: tensor<4x4xbf16>, %u: tensor<4xbf16>) -> (tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>) {
  %y = graph.matmul %x, %w : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %b = graph.broadcast %u : tensor<4xbf16> -> tensor<8x4xbf16>
  %biased = graph.add %y, %b : tensor<8x4xbf16>
  %z = graph.matmul %x, %w {transpose_b} : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %t = graph.tanh %x : tensor<8x4xbf16>
  %scaled = graph.add %z, %t : tensor<8x4xbf16>
  %v = graph.matmul %biased, %w : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %s = graph.add %v, %x : tensor<8x4xbf16>
  return %scaled, %v, %s : tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>
}

// A layer's bias, which `ztc-fuse-biases` gave the product, is added with the residual. Not so what two layers give, and a layer and its adapter: their sum is
// no residual.
// CHECK-LABEL: func.func @biases(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x4xbf16>, %[[W:[^:]*]]: tensor<4x4xbf16>, %[[U:[^:]*]]: tensor<4xbf16>
// CHECK-NEXT:    %[[H:.*]] = graph.matmul_add %[[X]], %[[W]], %[[X]] bias %[[U]] : tensor<4xbf16> {transpose_b} : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<8x4xbf16>
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[H]] : tensor<8x4xbf16> -> tensor<8x1x4xbf16>
// CHECK-NEXT:    %[[E:.*]] = graph.exp %[[R]]
// CHECK-NEXT:    %[[F:.*]] = graph.reshape %[[E]] : tensor<8x1x4xbf16> -> tensor<8x4xbf16>
// CHECK-NEXT:    %[[Z:.*]] = graph.matmul_add %[[F]], %[[W]], %[[H]] bias %[[U]] : tensor<4xbf16> : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<8x4xbf16>
// CHECK-NEXT:    graph.reshape %[[Z]] : tensor<8x4xbf16> -> tensor<8x1x4xbf16>
// CHECK-NOT:     matmul_add
func.func @biases(%x: tensor<8x4xbf16>, %w: tensor<4x4xbf16>, %u: tensor<4xbf16>) -> (tensor<8x1x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>) {
  %y = graph.matmul_bias %x, %w, %u {transpose_b} : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<4xbf16> -> tensor<8x4xbf16>
  %h = graph.add %x, %y : tensor<8x4xbf16>
  %r = graph.reshape %h : tensor<8x4xbf16> -> tensor<8x1x4xbf16>
  %e = graph.exp %r : tensor<8x1x4xbf16>
  %f = graph.reshape %e : tensor<8x1x4xbf16> -> tensor<8x4xbf16>
  %z = graph.matmul_bias %f, %w, %u : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<4xbf16> -> tensor<8x4xbf16>
  %s = graph.reshape %z : tensor<8x4xbf16> -> tensor<8x1x4xbf16>
  %o = graph.add %s, %r : tensor<8x1x4xbf16>
  %a = graph.matmul_bias %x, %w, %u : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<4xbf16> -> tensor<8x4xbf16>
  %b = graph.matmul_bias %x, %w, %u {transpose_b} : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<4xbf16> -> tensor<8x4xbf16>
  %ab = graph.add %a, %b : tensor<8x4xbf16>
  %c = graph.matmul_bias %f, %w, %u : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<4xbf16> -> tensor<8x4xbf16>
  %d = graph.matmul %f, %w {transpose_b} : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %cd = graph.add %c, %d : tensor<8x4xbf16>
  return %o, %ab, %cd : tensor<8x1x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>
}

// A row that is generated with a cache has its numbers in other shapes than the whole text: shapes change nothing, and are looked through.
// CHECK-LABEL: func.func @shapes(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x4xbf16>, %[[W:[^:]*]]: tensor<4x4xbf16>
// CHECK-NEXT:    %[[E:.*]] = graph.exp %[[X]]
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[E]] : tensor<8x4xbf16> -> tensor<8x1x4xbf16>
// CHECK-NEXT:    %[[N:.*]] = graph.rms_norm %[[R]]
// CHECK-NEXT:    %[[M:.*]] = graph.reshape %[[N]] : tensor<8x1x4xbf16> -> tensor<8x4xbf16>
// CHECK-NEXT:    %[[H:.*]] = graph.matmul_add %[[M]], %[[W]], %[[E]] {transpose_b} : tensor<8x4xbf16>, tensor<4x4xbf16>, tensor<8x4xbf16>
// CHECK-NEXT:    %[[O:.*]] = graph.reshape %[[H]] : tensor<8x4xbf16> -> tensor<8x1x4xbf16>
// CHECK-NEXT:    return %[[O]]
func.func @shapes(%x: tensor<8x4xbf16>, %w: tensor<4x4xbf16>, %u: tensor<4xbf16>) -> tensor<8x1x4xbf16> {
  %e = graph.exp %x : tensor<8x4xbf16>
  %r = graph.reshape %e : tensor<8x4xbf16> -> tensor<8x1x4xbf16>
  %n = graph.rms_norm %r, %u, 1.0e-5 : tensor<8x1x4xbf16>, tensor<4xbf16>
  %m = graph.reshape %n : tensor<8x1x4xbf16> -> tensor<8x4xbf16>
  %y = graph.matmul %m, %w {transpose_b} : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
  %z = graph.reshape %y : tensor<8x4xbf16> -> tensor<8x1x4xbf16>
  %h = graph.add %r, %z : tensor<8x1x4xbf16>
  return %h : tensor<8x1x4xbf16>
}

// An f32 sum is as exact as the product.
// CHECK-LABEL: func.func @wide(
// CHECK:         graph.add
func.func @wide(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %y = graph.matmul %x, %w : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %h = graph.add %x, %y : tensor<8x4xf32>
  return %h : tensor<8x4xf32>
}

// What the backward part reads does not decide: in training a value is rounded as in evaluation, where the exponential has one reader.
// CHECK-LABEL: func.func @microstep(
// CHECK-NOT:     matmul_add
module @training {
  func.func @microstep(%x: tensor<8x4xbf16>, %w: tensor<4x4xbf16>) -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<8x4xbf16>) attributes {graph.entry = #graph.entry<microstep>} {
    %e = graph.exp %x : tensor<8x4xbf16>
    %y = graph.matmul %x, %w : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xbf16>
    %h = graph.add %e, %y : tensor<8x4xbf16>
    %f = graph.cast %h : tensor<8x4xbf16> -> tensor<8x4xf32>
    %rows = graph.reduce_sum %f, [1] : tensor<8x4xf32> -> tensor<8x1xf32>
    %all = graph.reduce_sum %rows, [0] : tensor<8x1xf32> -> tensor<1x1xf32>
    %loss = graph.reshape %all : tensor<1x1xf32> -> tensor<f32>
    %g = graph.mul %e, %e : tensor<8x4xbf16>
    return %loss, %g : tensor<f32>, tensor<8x4xbf16>
  }
}
