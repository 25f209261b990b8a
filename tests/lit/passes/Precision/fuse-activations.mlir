// RUN: ztc-opt %s --ztc-fuse-activations --split-input-file | FileCheck %s

// GELU by its tanh form, as phase `precision` leaves it: numbers that bf16 cannot hold are f32. The sum that nothing else reads is not stored.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x4xbf16>, %[[W:[^:]*]]: tensor<16x4xbf16>, %[[V:[^:]*]]: tensor<16xbf16>, %[[U:[^:]*]]: tensor<4x16xbf16>
// CHECK-NOT:     graph.tanh
// CHECK:         %[[Y:.*]] = graph.matmul_gelu %[[X]], %[[W]], %[[V]] {transpose_b} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
// CHECK-NEXT:    %[[O:.*]] = graph.matmul %[[Y]], %[[U]] {transpose_b}
// CHECK-NEXT:    return %[[O]]
func.func @eval(%x: tensor<8x4xbf16>, %w: tensor<16x4xbf16>, %v: tensor<16xbf16>, %u: tensor<4x16xbf16>) -> tensor<8x4xbf16> {
  %half = graph.constant dense<5.000000e-01> : tensor<8x16xbf16>
  %cubic = graph.constant dense<4.471500e-02> : tensor<8x16xf32>
  %scale = graph.constant dense<0.797884583> : tensor<8x16xf32>
  %one = graph.constant dense<1.000000e+00> : tensor<8x16xf32>
  %h = graph.matmul_bias %x, %w, %v {transpose_b} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
  %a = graph.mul %h, %half : tensor<8x16xbf16>
  %p = graph.power %h, 3.000000e+00 : tensor<8x16xbf16>
  %p32 = graph.cast %p : tensor<8x16xbf16> -> tensor<8x16xf32>
  %q = graph.mul %p32, %cubic : tensor<8x16xf32>
  %h32 = graph.cast %h : tensor<8x16xbf16> -> tensor<8x16xf32>
  %s = graph.add %h32, %q : tensor<8x16xf32>
  %m = graph.mul %s, %scale : tensor<8x16xf32>
  %t = graph.tanh %m : tensor<8x16xf32>
  %e = graph.add %t, %one : tensor<8x16xf32>
  %a32 = graph.cast %a : tensor<8x16xbf16> -> tensor<8x16xf32>
  %g = graph.mul %a32, %e : tensor<8x16xf32>
  %y = graph.cast %g : tensor<8x16xf32> -> tensor<8x16xbf16>
  %o = graph.matmul %y, %u {transpose_b} : tensor<8x16xbf16>, tensor<4x16xbf16> -> tensor<8x4xbf16>
  return %o : tensor<8x4xbf16>
}

// In other orders and shapes, with x x x for the power: as a row is computed that is generated with a cache.
// CHECK-LABEL: func.func @shapes(
// CHECK-NOT:     graph.tanh
// CHECK:         %[[Y:.*]] = graph.matmul_gelu
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[Y]] : tensor<8x16xf16> -> tensor<8x1x16xf16>
// CHECK-NEXT:    %[[S:.*]] = graph.reshape %[[R]] : tensor<8x1x16xf16> -> tensor<8x16xf16>
// CHECK-NEXT:    graph.matmul %[[S]]
func.func @shapes(%x: tensor<8x4xf16>, %w: tensor<4x16xf16>, %v: tensor<16xf16>, %u: tensor<16x4xf16>) -> tensor<8x4xf16> {
  %half = graph.constant dense<5.000000e-01> : tensor<8x1x16xf16>
  %cubic = graph.constant dense<4.471500e-02> : tensor<8x1x16xf32>
  %scale = graph.constant dense<0.797884583> : tensor<8x1x16xf32>
  %one = graph.constant dense<1.000000e+00> : tensor<8x1x16xf16>
  %k = graph.matmul_bias %x, %w, %v : tensor<8x4xf16>, tensor<4x16xf16>, tensor<16xf16> -> tensor<8x16xf16>
  %h = graph.reshape %k : tensor<8x16xf16> -> tensor<8x1x16xf16>
  %h32 = graph.cast %h : tensor<8x1x16xf16> -> tensor<8x1x16xf32>
  %b = graph.mul %h32, %h32 : tensor<8x1x16xf32>
  %c = graph.mul %cubic, %b : tensor<8x1x16xf32>
  %q = graph.mul %h32, %c : tensor<8x1x16xf32>
  %s = graph.add %q, %h32 : tensor<8x1x16xf32>
  %m = graph.mul %scale, %s : tensor<8x1x16xf32>
  %t32 = graph.tanh %m : tensor<8x1x16xf32>
  %t = graph.cast %t32 : tensor<8x1x16xf32> -> tensor<8x1x16xf16>
  %e = graph.add %one, %t : tensor<8x1x16xf16>
  %g = graph.mul %h, %e : tensor<8x1x16xf16>
  %y = graph.mul %half, %g : tensor<8x1x16xf16>
  %r = graph.reshape %y : tensor<8x1x16xf16> -> tensor<8x16xf16>
  %o = graph.matmul %r, %u : tensor<8x16xf16>, tensor<16x4xf16> -> tensor<8x4xf16>
  return %o : tensor<8x4xf16>
}

// A kernel reads GELU, beside a gate; another number than tanh's form has; a sum without a bias; columns that are no multiple of 8.
// CHECK-LABEL: func.func @others(
// CHECK-NOT:     matmul_gelu
func.func @others(%x: tensor<8x4xbf16>, %w: tensor<4x16xbf16>, %v: tensor<16xbf16>, %u: tensor<16x4xbf16>, %n: tensor<4x6xbf16>, %b: tensor<6xbf16>, %z: tensor<6x4xbf16>)
    -> (tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>) {
  %half = graph.constant dense<5.000000e-01> : tensor<8x16xbf16>
  %cubic = graph.constant dense<4.471500e-02> : tensor<8x16xbf16>
  %wrong = graph.constant dense<4.500000e-02> : tensor<8x16xf32>
  %fine = graph.constant dense<4.471500e-02> : tensor<8x16xf32>
  %scale = graph.constant dense<0.797884583> : tensor<8x16xf32>
  %one = graph.constant dense<1.000000e+00> : tensor<8x16xbf16>
  // Beside a gate.
  %h0 = graph.matmul_bias %x, %w, %v : tensor<8x4xbf16>, tensor<4x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
  %p0 = graph.power %h0, 3.000000e+00 : tensor<8x16xbf16>
  %c0 = graph.cast %p0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %d0 = graph.cast %h0 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %q0 = graph.mul %c0, %fine : tensor<8x16xf32>
  %s0 = graph.add %d0, %q0 : tensor<8x16xf32>
  %m0 = graph.mul %s0, %scale : tensor<8x16xf32>
  %t0 = graph.tanh %m0 : tensor<8x16xf32>
  %n0 = graph.cast %t0 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %e0 = graph.add %n0, %one : tensor<8x16xbf16>
  %a0 = graph.mul %h0, %half : tensor<8x16xbf16>
  %y0 = graph.mul %a0, %e0 : tensor<8x16xbf16>
  %gate = graph.matmul %x, %w : tensor<8x4xbf16>, tensor<4x16xbf16> -> tensor<8x16xbf16>
  %gated = graph.mul %y0, %gate : tensor<8x16xbf16>
  %o0 = graph.matmul %gated, %u : tensor<8x16xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  // Another number.
  %h1 = graph.matmul_bias %x, %w, %v : tensor<8x4xbf16>, tensor<4x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
  %p1 = graph.power %h1, 3.000000e+00 : tensor<8x16xbf16>
  %c1 = graph.cast %p1 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %d1 = graph.cast %h1 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %q1 = graph.mul %c1, %wrong : tensor<8x16xf32>
  %s1 = graph.add %d1, %q1 : tensor<8x16xf32>
  %m1 = graph.mul %s1, %scale : tensor<8x16xf32>
  %t1 = graph.tanh %m1 : tensor<8x16xf32>
  %n1 = graph.cast %t1 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %e1 = graph.add %n1, %one : tensor<8x16xbf16>
  %a1 = graph.mul %h1, %half : tensor<8x16xbf16>
  %y1 = graph.mul %a1, %e1 : tensor<8x16xbf16>
  %o1 = graph.matmul %y1, %u : tensor<8x16xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  // No bias.
  %h2 = graph.matmul %x, %w : tensor<8x4xbf16>, tensor<4x16xbf16> -> tensor<8x16xbf16>
  %p2 = graph.power %h2, 3.000000e+00 : tensor<8x16xbf16>
  %c2 = graph.cast %p2 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %d2 = graph.cast %h2 : tensor<8x16xbf16> -> tensor<8x16xf32>
  %q2 = graph.mul %c2, %fine : tensor<8x16xf32>
  %s2 = graph.add %d2, %q2 : tensor<8x16xf32>
  %m2 = graph.mul %s2, %scale : tensor<8x16xf32>
  %t2 = graph.tanh %m2 : tensor<8x16xf32>
  %n2 = graph.cast %t2 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %e2 = graph.add %n2, %one : tensor<8x16xbf16>
  %a2 = graph.mul %h2, %half : tensor<8x16xbf16>
  %y2 = graph.mul %a2, %e2 : tensor<8x16xbf16>
  %o2 = graph.matmul %y2, %u : tensor<8x16xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  // Six columns.
  %half6 = graph.constant dense<5.000000e-01> : tensor<8x6xbf16>
  %fine6 = graph.constant dense<4.471500e-02> : tensor<8x6xf32>
  %scale6 = graph.constant dense<0.797884583> : tensor<8x6xf32>
  %one6 = graph.constant dense<1.000000e+00> : tensor<8x6xbf16>
  %h3 = graph.matmul_bias %x, %n, %b : tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<6xbf16> -> tensor<8x6xbf16>
  %p3 = graph.power %h3, 3.000000e+00 : tensor<8x6xbf16>
  %c3 = graph.cast %p3 : tensor<8x6xbf16> -> tensor<8x6xf32>
  %d3 = graph.cast %h3 : tensor<8x6xbf16> -> tensor<8x6xf32>
  %q3 = graph.mul %c3, %fine6 : tensor<8x6xf32>
  %s3 = graph.add %d3, %q3 : tensor<8x6xf32>
  %m3 = graph.mul %s3, %scale6 : tensor<8x6xf32>
  %t3 = graph.tanh %m3 : tensor<8x6xf32>
  %n3 = graph.cast %t3 : tensor<8x6xf32> -> tensor<8x6xbf16>
  %e3 = graph.add %n3, %one6 : tensor<8x6xbf16>
  %a3 = graph.mul %h3, %half6 : tensor<8x6xbf16>
  %y3 = graph.mul %a3, %e3 : tensor<8x6xbf16>
  %o3 = graph.matmul %y3, %z : tensor<8x6xbf16>, tensor<6x4xbf16> -> tensor<8x4xbf16>
  return %o0, %o1, %o2, %o3 : tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>, tensor<8x4xbf16>
}

// -----

// What the gradient reads of the tanh is computed in front of it, of the rounded sum.
// CHECK-LABEL: func.func @microstep(
// CHECK:         %[[Y:.*]], %[[S:.*]] = graph.matmul_gelu %{{.*}}, %{{.*}}, %{{.*}} : tensor<8x4xbf16>, tensor<4x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>, tensor<8x16xbf16>
// CHECK-NEXT:    graph.matmul %[[Y]]
// CHECK:         %[[LOSS:.*]] = graph.reshape
// CHECK-NEXT:    graph.power %[[S]]
// CHECK:         %[[T:.*]] = graph.tanh
// CHECK-NEXT:    %[[N:.*]] = graph.cast %[[T]]
// CHECK-NEXT:    %[[G:.*]] = graph.mul %[[N]], %[[Y]]
// CHECK-NEXT:    return %[[LOSS]], %[[G]]
func.func @microstep(%x: tensor<8x4xbf16>, %w: tensor<4x16xbf16>, %v: tensor<16xbf16>, %u: tensor<16x4xbf16>) -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<8x16xbf16>) attributes {graph.entry = #graph.entry<microstep>} {
  %half = graph.constant dense<5.000000e-01> : tensor<8x16xbf16>
  %cubic = graph.constant dense<4.471500e-02> : tensor<8x16xf32>
  %scale = graph.constant dense<0.797884583> : tensor<8x16xf32>
  %one = graph.constant dense<1.000000e+00> : tensor<8x16xbf16>
  %h = graph.matmul_bias %x, %w, %v : tensor<8x4xbf16>, tensor<4x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
  %p = graph.power %h, 3.000000e+00 : tensor<8x16xbf16>
  %p32 = graph.cast %p : tensor<8x16xbf16> -> tensor<8x16xf32>
  %h32 = graph.cast %h : tensor<8x16xbf16> -> tensor<8x16xf32>
  %q = graph.mul %p32, %cubic : tensor<8x16xf32>
  %s = graph.add %h32, %q : tensor<8x16xf32>
  %m = graph.mul %s, %scale : tensor<8x16xf32>
  %t = graph.tanh %m : tensor<8x16xf32>
  %n = graph.cast %t : tensor<8x16xf32> -> tensor<8x16xbf16>
  %e = graph.add %n, %one : tensor<8x16xbf16>
  %a = graph.mul %h, %half : tensor<8x16xbf16>
  %y = graph.mul %a, %e : tensor<8x16xbf16>
  %o = graph.matmul %y, %u : tensor<8x16xbf16>, tensor<16x4xbf16> -> tensor<8x4xbf16>
  %f = graph.cast %o : tensor<8x4xbf16> -> tensor<8x4xf32>
  %sums = graph.reduce_sum %f, [1] : tensor<8x4xf32> -> tensor<8x1xf32>
  %all = graph.reduce_sum %sums, [0] : tensor<8x1xf32> -> tensor<1x1xf32>
  %loss = graph.reshape %all : tensor<1x1xf32> -> tensor<f32>
  %g = graph.mul %n, %y : tensor<8x16xbf16>
  return %loss, %g : tensor<f32>, tensor<8x16xbf16>
}
