// RUN: ztc-opt %s --ztc-merge-products --split-input-file | FileCheck %s

// gate and up: one product forward; in backward one for the input's cotangent in place of two and their sum, and one for both gradients, added in
// one place. The third term of the sum stays.
// CHECK-LABEL: func.func @microstep
// CHECK:         %[[W:.*]] = dist.view %{{.*}}[0] : tensor<192xf32> -> tensor<32x4xf32>
// CHECK:         %[[Y:.*]] = graph.matmul %{{.*}}, %{{.*}} {transpose_b} : tensor<8x4xf32>, tensor<32x4xf32> -> tensor<8x32xf32>
// CHECK:         %[[G:.*]] = graph.slice %[[Y]], [0, 0] : tensor<8x32xf32> -> tensor<8x16xf32>
// CHECK:         %[[U:.*]] = graph.slice %[[Y]], [0, 16] : tensor<8x32xf32> -> tensor<8x16xf32>
// CHECK:         graph.swiglu %[[G]], %[[U]]
// CHECK:         %[[DG:.*]], %[[DU:.*]] = graph.swiglu_grad %[[G]], %[[U]], %{{.*}}
// CHECK-NEXT:    %[[DY:.*]] = graph.concat %[[DG]], %[[DU]] axis 1 : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x32xf32>
// CHECK-NEXT:    %[[DW:.*]] = graph.matmul %[[DY]], %{{.*}} {transpose_a} : tensor<8x32xf32>, tensor<8x4xf32> -> tensor<32x4xf32>
// CHECK-NEXT:    %[[DX:.*]] = graph.matmul %[[DY]], %{{.*}} : tensor<8x32xf32>, tensor<32x4xf32> -> tensor<8x4xf32>
// CHECK-NEXT:    %[[SUM:.*]] = graph.add %{{.*}}, %[[DX]] : tensor<8x4xf32>
// CHECK:         %[[SLOT:.*]] = dist.view %{{.*}}[0] : tensor<192xf32> -> tensor<32x4xf32>
// CHECK:         %[[A:.*]] = graph.accumulate %[[SLOT]], %[[DW]] {first_writes} : tensor<32x4xf32>
// CHECK:         %[[P:.*]] = dist.pack %[[A]], %{{.*}} at [0, 128] : tensor<32x4xf32>, tensor<4x16xf32> -> tensor<192xf32>
// CHECK:         return %[[SUM]], %[[P]]
func.func @microstep(%x: tensor<8x4xf32>, %dl: tensor<8x4xf32>, %b: tensor<192xf32>, %gb: tensor<192xf32>) -> (tensor<8x4xf32>, tensor<192xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %wg = dist.view %b[0] : tensor<192xf32> -> tensor<16x4xf32>
  %wu = dist.view %b[64] : tensor<192xf32> -> tensor<16x4xf32>
  %wd = dist.view %b[128] : tensor<192xf32> -> tensor<4x16xf32>
  %g = graph.matmul %x, %wg {transpose_b} : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
  %u = graph.matmul %x, %wu {transpose_b} : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
  %s = graph.swiglu %g, %u : tensor<8x16xf32>
  %y = graph.matmul %s, %wd {transpose_b} : tensor<8x16xf32>, tensor<4x16xf32> -> tensor<8x4xf32>
  %dwd = graph.matmul %dl, %s {transpose_a} : tensor<8x4xf32>, tensor<8x16xf32> -> tensor<4x16xf32>
  %ds = graph.matmul %dl, %wd : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
  %dg, %du = graph.swiglu_grad %g, %u, %ds : tensor<8x16xf32>
  %dwu = graph.matmul %du, %x {transpose_a} : tensor<8x16xf32>, tensor<8x4xf32> -> tensor<16x4xf32>
  %dxu = graph.matmul %du, %wu : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %dwg = graph.matmul %dg, %x {transpose_a} : tensor<8x16xf32>, tensor<8x4xf32> -> tensor<16x4xf32>
  %dxg = graph.matmul %dg, %wg : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %one = graph.add %y, %dxu : tensor<8x4xf32>
  %two = graph.add %one, %dxg : tensor<8x4xf32>
  %sg = dist.view %gb[0] : tensor<192xf32> -> tensor<16x4xf32>
  %ag = graph.accumulate %sg, %dwg {first_writes} : tensor<16x4xf32>
  %su = dist.view %gb[64] : tensor<192xf32> -> tensor<16x4xf32>
  %au = graph.accumulate %su, %dwu {first_writes} : tensor<16x4xf32>
  %sd = dist.view %gb[128] : tensor<192xf32> -> tensor<4x16xf32>
  %ad = graph.accumulate %sd, %dwd {first_writes} : tensor<4x16xf32>
  %out = dist.pack %ag, %au, %ad at [0, 64, 128] : tensor<16x4xf32>, tensor<16x4xf32>, tensor<4x16xf32> -> tensor<192xf32>
  return %two, %out : tensor<8x4xf32>, tensor<192xf32>
}

// -----

// Attention, a library, reads v: it is copied out of the merged result, which is little beside the rest and not kept.
// CHECK-LABEL: func.func @eval
// CHECK:         %[[Y:.*]] = graph.matmul %{{.*}}, %{{.*}} {transpose_b} : tensor<8x16xf32>, tensor<64x16xf32> -> tensor<8x64xf32>
// CHECK:         graph.slice %[[Y]], [0, 0] : tensor<8x64xf32> -> tensor<8x32xf32>
// CHECK:         graph.slice %[[Y]], [0, 32] : tensor<8x64xf32> -> tensor<8x16xf32>
// CHECK:         graph.slice %[[Y]], [0, 48] : tensor<8x64xf32> -> tensor<8x16xf32>
// CHECK:         graph.attention
func.func @eval(%x: tensor<8x16xf32>, %b: tensor<1024xf32>, %t: tensor<8x8xf32>) -> tensor<1x8x2x16xf32> attributes {graph.entry = #graph.entry<eval>} {
  %wq = dist.view %b[0] : tensor<1024xf32> -> tensor<32x16xf32>
  %wk = dist.view %b[512] : tensor<1024xf32> -> tensor<16x16xf32>
  %wv = dist.view %b[768] : tensor<1024xf32> -> tensor<16x16xf32>
  %q = graph.matmul %x, %wq {transpose_b} : tensor<8x16xf32>, tensor<32x16xf32> -> tensor<8x32xf32>
  %k = graph.matmul %x, %wk {transpose_b} : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %v = graph.matmul %x, %wv {transpose_b} : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %q4 = graph.reshape %q : tensor<8x32xf32> -> tensor<1x8x2x16xf32>
  %k4 = graph.reshape %k : tensor<8x16xf32> -> tensor<1x8x1x16xf32>
  %v4 = graph.reshape %v : tensor<8x16xf32> -> tensor<1x8x1x16xf32>
  %qr = graph.rope %q4, %t, %t : tensor<1x8x2x16xf32>, tensor<8x8xf32>
  %kr = graph.rope %k4, %t, %t : tensor<1x8x1x16xf32>, tensor<8x8xf32>
  %out = graph.attention %qr, %kr, %v4, 0.25 {causal} : tensor<1x8x2x16xf32>, tensor<1x8x1x16xf32>
  return %out : tensor<1x8x2x16xf32>
}

// -----

// Not merged: weights with a gap between them, of two buckets, or results that all would have to be copied out.
// CHECK-LABEL: func.func @eval
// CHECK-COUNT-3: graph.matmul {{.*}} -> tensor<8x16xf32>
// CHECK-COUNT-2: graph.matmul {{.*}} -> tensor<8x16xf32>
// CHECK-NOT:     graph.matmul
// CHECK-NOT:     graph.slice
func.func @eval(%x: tensor<8x16xf32>, %b: tensor<1024xf32>, %c: tensor<512xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) attributes {graph.entry = #graph.entry<eval>} {
  %w0 = dist.view %b[0] : tensor<1024xf32> -> tensor<16x16xf32>
  %w2 = dist.view %b[512] : tensor<1024xf32> -> tensor<16x16xf32>
  %other = dist.view %c[256] : tensor<512xf32> -> tensor<16x16xf32>
  %y0 = graph.matmul %x, %w0 {transpose_b} : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %y1 = graph.matmul %x, %other {transpose_b} : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %y2 = graph.matmul %x, %w2 {transpose_b} : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %e0 = graph.exp %y0 : tensor<8x16xf32>
  %e1 = graph.exp %y1 : tensor<8x16xf32>
  %e2 = graph.exp %y2 : tensor<8x16xf32>
  %w3 = dist.view %b[768] : tensor<1024xf32> -> tensor<16x16xf32>
  %z2 = graph.matmul %e0, %w2 {transpose_b} : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %z3 = graph.matmul %e0, %w3 {transpose_b} : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  return %e1, %e2, %z2, %z3 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// Cotangents that a library computes would have to be copied: the sum stays.
// CHECK-LABEL: func.func @microstep
// CHECK-NOT:     graph.concat
// CHECK:         graph.add
func.func @microstep(%dy: tensor<8x4xf32>, %b: tensor<192xf32>, %c: tensor<128xf32>) -> tensor<8x4xf32> attributes {graph.entry = #graph.entry<microstep>} {
  %wg = dist.view %b[0] : tensor<192xf32> -> tensor<16x4xf32>
  %wu = dist.view %b[64] : tensor<192xf32> -> tensor<16x4xf32>
  %v0 = dist.view %c[0] : tensor<128xf32> -> tensor<4x16xf32>
  %v1 = dist.view %c[64] : tensor<128xf32> -> tensor<4x16xf32>
  %dg = graph.matmul %dy, %v0 : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
  %du = graph.matmul %dy, %v1 : tensor<8x4xf32>, tensor<4x16xf32> -> tensor<8x16xf32>
  %a = graph.matmul %dg, %wg : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %e = graph.matmul %du, %wu : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
  %dx = graph.add %a, %e : tensor<8x4xf32>
  return %dx : tensor<8x4xf32>
}

// -----

// Layers with biases are one where their biases lie side by side as their weights do; the third bias lies elsewhere.
// CHECK-LABEL: func.func @eval
// CHECK-SAME:    %[[X:.*]]: tensor<8x16xbf16>, %[[B:.*]]: tensor<1024xbf16>
// CHECK-DAG:     %[[W:.*]] = dist.view %[[B]][0] : tensor<1024xbf16> -> tensor<32x16xbf16>
// CHECK-DAG:     %[[V:.*]] = dist.view %[[B]][768] : tensor<1024xbf16> -> tensor<32xbf16>
// CHECK:         %[[Y:.*]] = graph.matmul_bias %[[X]], %[[W]], %[[V]] {transpose_b} : tensor<8x16xbf16>, tensor<32x16xbf16>, tensor<32xbf16> -> tensor<8x32xbf16>
// CHECK-NEXT:    graph.slice %[[Y]], [0, 0]
// CHECK-NEXT:    graph.slice %[[Y]], [0, 16]
// CHECK:         graph.matmul_bias %[[X]], {{.*}} -> tensor<8x16xbf16>
// CHECK:         graph.matmul %[[X]], {{.*}} -> tensor<8x16xbf16>
// CHECK-NOT:     graph.matmul
func.func @eval(%x: tensor<8x16xbf16>, %b: tensor<1024xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) attributes {graph.entry = #graph.entry<eval>} {
  %w0 = dist.view %b[0] : tensor<1024xbf16> -> tensor<16x16xbf16>
  %w1 = dist.view %b[256] : tensor<1024xbf16> -> tensor<16x16xbf16>
  %w2 = dist.view %b[512] : tensor<1024xbf16> -> tensor<16x16xbf16>
  %v0 = dist.view %b[768] : tensor<1024xbf16> -> tensor<16xbf16>
  %v1 = dist.view %b[784] : tensor<1024xbf16> -> tensor<16xbf16>
  %v2 = dist.view %b[816] : tensor<1024xbf16> -> tensor<16xbf16>
  %y0 = graph.matmul_bias %x, %w0, %v0 {transpose_b} : tensor<8x16xbf16>, tensor<16x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
  %y1 = graph.matmul_bias %x, %w1, %v1 {transpose_b} : tensor<8x16xbf16>, tensor<16x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
  %y2 = graph.matmul_bias %x, %w2, %v2 {transpose_b} : tensor<8x16xbf16>, tensor<16x16xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
  %e0 = graph.exp %y0 : tensor<8x16xbf16>
  %e1 = graph.exp %y1 : tensor<8x16xbf16>
  %e2 = graph.exp %y2 : tensor<8x16xbf16>
  %w3 = dist.view %b[512] : tensor<1024xbf16> -> tensor<16x16xbf16>
  %y3 = graph.matmul %x, %w3 {transpose_b} : tensor<8x16xbf16>, tensor<16x16xbf16> -> tensor<8x16xbf16>
  %e3 = graph.exp %y3 : tensor<8x16xbf16>
  return %e0, %e1, %e2, %e3 : tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>
}
