// Linear attention and causal convolutions are written out in all functions, and stay f32 in every precision.
// RUN: ztc-opt %s --ztc-write-out-recurrences | FileCheck %s

// CHECK-LABEL: func @forward
// CHECK-NOT: graph.linear_attention
// The chunks stand in front.
// CHECK: graph.transpose %{{.*}}, [1, 0, 3, 4, 2, 5] {graph.wide} : tensor<1x2x4x1x1x2xf32> -> tensor<2x1x1x1x4x2xf32>
// What chunks add to the state, and the state before each.
// CHECK: graph.matmul %{{.*}} {graph.wide, graph.wide_factors, transpose_a} : tensor<2x4x2xf32>, tensor<2x4x3xf32> -> tensor<2x2x3xf32>
// CHECK: graph.state_passing plus %{{.*}} : tensor<2x2x3xf32> {chunks = 2 : i64, graph.wide, graph.wide_factors} : tensor<2x2x3xf32>, tensor<1x2x3xf32>
// Products of chunks, all at once, with factors of f32.
// CHECK: graph.matmul %{{.*}} {graph.wide, graph.wide_factors, transpose_b} : tensor<2x4x2xf32>, tensor<2x4x2xf32> -> tensor<2x4x4xf32>
// CHECK-NOT: graph.causal_convolution
// CHECK: %[[taps:.*]] = graph.transpose %{{.*}}, [1, 0] : tensor<3x3xf32> -> tensor<3x3xf32>
// CHECK: graph.causal_filter %{{.*}} by %[[taps]] : tensor<3x3xf32> : tensor<1x7x3xf32>
func.func @forward(%q: tensor<1x7x1x2xf32>, %v: tensor<1x7x1x3xf32>, %w: tensor<3x3xf32>) -> tensor<1x7x3xf32> {
  %y, %s = graph.linear_attention %q, %q, %v, 1.0 {chunk = 4 : i64} : tensor<1x7x1x2xf32>, tensor<1x7x1x2xf32>, tensor<1x7x1x3xf32> -> tensor<1x7x1x3xf32>, tensor<1x1x2x3xf32>
  %x = graph.reshape %y : tensor<1x7x1x3xf32> -> tensor<1x7x3xf32>
  %z = graph.causal_convolution %x, %w : tensor<1x7x3xf32>, tensor<3x3xf32>
  return %z : tensor<1x7x3xf32>
}

// Heads of queries and keys that all of values share are multiplied once, and the states of these stand side by side: (2, 3 heads * 3).
// CHECK-LABEL: func @shared
// CHECK-NOT: tensor<1x7x3x2xf32>
// CHECK: graph.matmul %{{.*}} {graph.wide, graph.wide_factors, transpose_b} : tensor<2x4x2xf32>, tensor<2x4x2xf32> -> tensor<2x4x4xf32>
// CHECK: graph.matmul %{{.*}} {graph.wide, graph.wide_factors} : tensor<6x4x4xf32>, tensor<6x4x3xf32> -> tensor<6x4x3xf32>
// CHECK: graph.matmul %{{.*}} {graph.wide, graph.wide_factors, transpose_a} : tensor<2x4x2xf32>, tensor<2x4x9xf32> -> tensor<2x2x9xf32>
// CHECK: graph.state_passing plus %{{.*}} : tensor<2x2x9xf32> decay %{{.*}} : tensor<2x1x3xf32> {chunks = 2 : i64
// CHECK: return
func.func @shared(%few: tensor<1x7x1x1x2xf32>, %v: tensor<1x7x3x3xf32>, %g: tensor<1x7x3x1xf32>) -> tensor<1x7x3x3xf32> {
  %all = graph.broadcast %few : tensor<1x7x1x1x2xf32> -> tensor<1x7x1x3x2xf32>
  %q = graph.reshape %all : tensor<1x7x1x3x2xf32> -> tensor<1x7x3x2xf32>
  %y, %s = graph.linear_attention %q, %q, %v, 1.0 decay %g : tensor<1x7x3x1xf32> {chunk = 4 : i64} : tensor<1x7x3x2xf32>, tensor<1x7x3x2xf32>, tensor<1x7x3x3xf32> -> tensor<1x7x3x3xf32>, tensor<1x3x2x3xf32>
  return %y : tensor<1x7x3x3xf32>
}

// By the delta rule what a chunk adds depends on the state before it.
// CHECK-LABEL: func @delta
// CHECK: %[[inverse:.*]] = graph.unit_lower_inverse %{{.*}} {graph.wide, graph.wide_factors} : tensor<2x4x4xf32>
// CHECK: %[[from:.*]] = graph.matmul %[[inverse]], %{{.*}} {graph.wide, graph.wide_factors} : tensor<2x4x4xf32>, tensor<2x4x2xf32> -> tensor<2x4x2xf32>
// CHECK: graph.state_passing to %{{.*}} : tensor<2x4x2xf32> from %[[from]] : tensor<2x4x2xf32> update %{{.*}} : tensor<2x4x3xf32> {chunks = 2 : i64, graph.wide, graph.wide_factors} : tensor<2x2x3xf32>, tensor<1x2x3xf32>, tensor<2x4x3xf32>
func.func @delta(%q: tensor<1x7x1x2xf32>, %v: tensor<1x7x1x3xf32>, %b: tensor<1x7x1x1xf32>) -> tensor<1x7x1x3xf32> {
  %y, %s = graph.linear_attention %q, %q, %v, 1.0 beta %b : tensor<1x7x1x1xf32> {chunk = 4 : i64, delta} : tensor<1x7x1x2xf32>, tensor<1x7x1x2xf32>, tensor<1x7x1x3xf32> -> tensor<1x7x1x3xf32>, tensor<1x1x2x3xf32>
  return %y : tensor<1x7x1x3xf32>
}

// Heads that are channels of one value, whose decays are products of steps and rates, are a selective scan: queries and keys are all channels', the scale goes to queries.
// CHECK-LABEL: func @scan
// CHECK-NOT: graph.matmul
// CHECK: %[[C:.*]] = graph.mul %{{.*}} {graph.wide} : tensor<1x40x2xf32>
// CHECK: %[[RATE:.*]] = graph.transpose %arg4, [1, 0] {graph.wide} : tensor<16x2xf32> -> tensor<2x16xf32>
// CHECK: graph.selective_scan %{{.*}}, %{{.*}}, %[[RATE]], %{{.*}}, %[[C]] {chunk = 32 : i64, graph.wide} : {{.*}} -> tensor<1x40x16xf32>, tensor<1x2x2x16xf32>
func.func @scan(%fq: tensor<1x40x1x1x2xf32>, %fk: tensor<1x40x1x1x2xf32>, %v: tensor<1x40x16x1xf32>, %step: tensor<1x40x16x1xf32>, %rate: tensor<16x2xf32>) -> tensor<1x40x16x1xf32> {
  %q1 = graph.broadcast %fq : tensor<1x40x1x1x2xf32> -> tensor<1x40x1x16x2xf32>
  %q = graph.reshape %q1 : tensor<1x40x1x16x2xf32> -> tensor<1x40x16x2xf32>
  %k1 = graph.broadcast %fk : tensor<1x40x1x1x2xf32> -> tensor<1x40x1x16x2xf32>
  %k = graph.reshape %k1 : tensor<1x40x1x16x2xf32> -> tensor<1x40x16x2xf32>
  %d = graph.broadcast %step : tensor<1x40x16x1xf32> -> tensor<1x40x16x2xf32>
  %r = graph.broadcast %rate : tensor<16x2xf32> -> tensor<1x40x16x2xf32>
  %g = graph.mul %r, %d : tensor<1x40x16x2xf32>
  %y, %s = graph.linear_attention %q, %k, %v, 0.5 decay %g : tensor<1x40x16x2xf32> {chunk = 4 : i64} : tensor<1x40x16x2xf32>, tensor<1x40x16x2xf32>, tensor<1x40x16x1xf32> -> tensor<1x40x16x1xf32>, tensor<1x16x2x1xf32>
  return %y : tensor<1x40x16x1xf32>
}

// What generates text hands on the last state, after the positions that count: that before a chunk which follows. @microstep, which is differentiated, keeps the chunked form where it hands on one.
// CHECK-LABEL: func @generate
// CHECK: %[[STEP:.*]] = graph.select %{{.*}}, %arg3, %{{.*}} : tensor<1x40x16x1xi1>, tensor<1x40x16x1xf32>
// CHECK: %[[V:.*]] = graph.pad %{{.*}}, [0, 0, 0] {graph.wide} : tensor<1x40x16xf32> -> tensor<1x65x16xf32>
// CHECK: %[[FLAT:.*]] = graph.reshape %[[STEP]]
// CHECK: %[[DELTA:.*]] = graph.pad %[[FLAT]], [0, 0, 0]
// CHECK: %[[Y:.*]], %[[STATES:.*]] = graph.selective_scan %[[V]], %[[DELTA]], %{{.*}} -> tensor<1x65x16xf32>, tensor<1x3x2x16xf32>
// CHECK: graph.slice %[[Y]], [0, 0, 0] {graph.wide} : tensor<1x65x16xf32> -> tensor<1x40x16xf32>
// CHECK: graph.slice %[[STATES]], [0, 2, 0, 0] {graph.wide} : tensor<1x3x2x16xf32> -> tensor<1x1x2x16xf32>
func.func @generate(%fq: tensor<1x40x1x1x2xf32>, %fk: tensor<1x40x1x1x2xf32>, %v: tensor<1x40x16x1xf32>, %step: tensor<1x40x16x1xf32>, %rate: tensor<16x2xf32>,
                    %counts: tensor<1x40x1x1xi1>) -> (tensor<1x40x16x1xf32>, tensor<1x16x2x1xf32>) attributes {graph.entry = #graph.entry<generate>} {
  %q1 = graph.broadcast %fq : tensor<1x40x1x1x2xf32> -> tensor<1x40x1x16x2xf32>
  %q = graph.reshape %q1 : tensor<1x40x1x16x2xf32> -> tensor<1x40x16x2xf32>
  %k1 = graph.broadcast %fk : tensor<1x40x1x1x2xf32> -> tensor<1x40x1x16x2xf32>
  %k = graph.reshape %k1 : tensor<1x40x1x16x2xf32> -> tensor<1x40x16x2xf32>
  %d = graph.broadcast %step : tensor<1x40x16x1xf32> -> tensor<1x40x16x2xf32>
  %r = graph.broadcast %rate : tensor<16x2xf32> -> tensor<1x40x16x2xf32>
  %g = graph.mul %d, %r : tensor<1x40x16x2xf32>
  %all = graph.broadcast %counts : tensor<1x40x1x1xi1> -> tensor<1x40x16x2xi1>
  %zero = graph.constant dense<0.0> : tensor<1x40x16x2xf32>
  %masked = graph.select %all, %g, %zero : tensor<1x40x16x2xi1>, tensor<1x40x16x2xf32>
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 decay %masked : tensor<1x40x16x2xf32> {chunk = 4 : i64} : tensor<1x40x16x2xf32>, tensor<1x40x16x2xf32>, tensor<1x40x16x1xf32> -> tensor<1x40x16x1xf32>, tensor<1x16x2x1xf32>
  return %y, %s : tensor<1x40x16x1xf32>, tensor<1x16x2x1xf32>
}
// CHECK-LABEL: func @microstep
// CHECK-NOT: graph.selective_scan
func.func @microstep(%fq: tensor<1x40x1x1x2xf32>, %fk: tensor<1x40x1x1x2xf32>, %v: tensor<1x40x16x1xf32>, %step: tensor<1x40x16x1xf32>, %rate: tensor<16x2xf32>) -> tensor<1x16x2x1xf32>
    attributes {graph.entry = #graph.entry<microstep>} {
  %q1 = graph.broadcast %fq : tensor<1x40x1x1x2xf32> -> tensor<1x40x1x16x2xf32>
  %q = graph.reshape %q1 : tensor<1x40x1x16x2xf32> -> tensor<1x40x16x2xf32>
  %k1 = graph.broadcast %fk : tensor<1x40x1x1x2xf32> -> tensor<1x40x1x16x2xf32>
  %k = graph.reshape %k1 : tensor<1x40x1x16x2xf32> -> tensor<1x40x16x2xf32>
  %d = graph.broadcast %step : tensor<1x40x16x1xf32> -> tensor<1x40x16x2xf32>
  %r = graph.broadcast %rate : tensor<16x2xf32> -> tensor<1x40x16x2xf32>
  %g = graph.mul %d, %r : tensor<1x40x16x2xf32>
  %y, %s = graph.linear_attention %q, %k, %v, 1.0 decay %g : tensor<1x40x16x2xf32> {chunk = 4 : i64} : tensor<1x40x16x2xf32>, tensor<1x40x16x2xf32>, tensor<1x40x16x1xf32> -> tensor<1x40x16x1xf32>, tensor<1x16x2x1xf32>
  return %s : tensor<1x16x2x1xf32>
}
