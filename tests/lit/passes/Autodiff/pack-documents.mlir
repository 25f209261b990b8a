// RUN: ztc-opt %s --ztc-pack-documents --split-input-file | FileCheck %s

// Positions are those in the document: learned ones and angles are looked up there, once for all heads; attention stays within the document.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME:    %[[TARGETS:[a-z0-9]+]]: tensor<3x4xi32> {graph.role = #graph.role<targets>}, %[[STARTS:[a-z0-9]+]]: tensor<3x4xi32> {graph.role = #graph.role<document_starts>}
// CHECK:         %[[ROW:.*]] = graph.iota 1 : tensor<3x4xi32>
// CHECK:         %[[POSITION:.*]] = graph.sub %[[ROW]], %[[STARTS]] : tensor<3x4xi32>
// CHECK:         graph.embedding %{{.*}}, %[[POSITION]] : tensor<4x8xf32>, tensor<3x4xi32> -> tensor<3x4x8xf32>
// CHECK:         %[[AT:.*]] = graph.reshape %{{.*}} : tensor<3x4x1x1x8xf32> -> tensor<3x4x8xf32>
// CHECK:         graph.add %{{.*}}, %[[AT]] : tensor<3x4x8xf32>
// CHECK:         graph.embedding %{{.*}}, %[[POSITION]] : tensor<4x1xf32>, tensor<3x4xi32> -> tensor<3x4x1xf32>
// CHECK:         graph.rope %{{.*}} : tensor<1x12x4x2xf32>, tensor<12x1xf32>
// CHECK:         graph.attention %{{.*}}, 5.000000e-01 within %[[STARTS]] : tensor<3x4xi32> {causal, window = 2 : i64} : tensor<3x4x4x2xf32>, tensor<3x4x2x2xf32>
func.func @eval(%tokens: tensor<3x4xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<3x4xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}, %k: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "k"},
                %places: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "places"})
    -> (tensor<3xf32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %cos = graph.constant dense<[[1.0], [0.5], [0.25], [0.125]]> : tensor<4x1xf32>
  %words = graph.embedding %w, %tokens : tensor<16x8xf32>, tensor<3x4xi32> -> tensor<3x4x8xf32>
  %learned = graph.broadcast %places : tensor<4x8xf32> -> tensor<3x4x8xf32>
  %x = graph.add %words, %learned : tensor<3x4x8xf32>
  %flat = graph.reshape %x : tensor<3x4x8xf32> -> tensor<12x8xf32>
  %q = graph.reshape %flat : tensor<12x8xf32> -> tensor<3x4x4x2xf32>
  %turned = graph.rope %q, %cos, %cos : tensor<3x4x4x2xf32>, tensor<4x1xf32>
  %narrow = graph.matmul %flat, %k {transpose_b} : tensor<12x8xf32>, tensor<4x8xf32> -> tensor<12x4xf32>
  %keys = graph.reshape %narrow : tensor<12x4xf32> -> tensor<3x4x2x2xf32>
  %out = graph.attention %turned, %keys, %keys, 5.0e-01 {causal, window = 2 : i64} : tensor<3x4x4x2xf32>, tensor<3x4x2x2xf32>
  %hidden = graph.reshape %out : tensor<3x4x4x2xf32> -> tensor<12x8xf32>
  %wanted = graph.reshape %targets : tensor<3x4xi32> -> tensor<12xi32>
  %loss = graph.linear_cross_entropy %hidden, %w, %wanted : tensor<12x8xf32>, tensor<16x8xf32>, tensor<12xi32> -> tensor<3xf32>
  return %loss : tensor<3xf32>
}

// -----

// A factor by position that heads share, (B, H, S, D): it is gathered as (B, S) and repeated afterwards. A number from 0 on is the position itself.
// CHECK-LABEL: func.func @eval(
// CHECK:         %[[POSITION:.*]] = graph.sub
// CHECK:         %[[FACTOR:.*]] = graph.embedding %{{.*}}, %[[POSITION]] : tensor<4x1xf32>, tensor<2x4xi32> -> tensor<2x4x1xf32>
// CHECK-NOT:     graph.embedding
// CHECK:         graph.broadcast %{{.*}} : tensor<2x1x4x1xf32> -> tensor<2x2x4x4xf32>
// CHECK:         %[[NUMBER:.*]] = graph.reshape %[[POSITION]]
// CHECK:         graph.cast %[[NUMBER]]
func.func @eval(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<2x4xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<2xf32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %table = graph.constant dense<[[1.0], [0.5], [0.25], [0.125]]> : tensor<4x1xf32>
  %words = graph.embedding %w, %tokens : tensor<16x8xf32>, tensor<2x4xi32> -> tensor<2x4x8xf32>
  %split = graph.reshape %words : tensor<2x4x8xf32> -> tensor<2x4x2x4xf32>
  %heads = graph.transpose %split, [0, 2, 1, 3] : tensor<2x4x2x4xf32> -> tensor<2x2x4x4xf32>
  %factor = graph.broadcast %table : tensor<4x1xf32> -> tensor<2x2x4x4xf32>
  %scaled = graph.mul %heads, %factor : tensor<2x2x4x4xf32>
  %number = graph.iota 2 : tensor<2x2x4x4xi32>
  %place = graph.cast %number : tensor<2x2x4x4xi32> -> tensor<2x2x4x4xf32>
  %moved = graph.add %scaled, %place : tensor<2x2x4x4xf32>
  %q = graph.transpose %moved, [0, 2, 1, 3] : tensor<2x2x4x4xf32> -> tensor<2x4x2x4xf32>
  %out = graph.attention %q, %q, %q, 5.0e-01 {causal} : tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>
  %hidden = graph.reshape %out : tensor<2x4x2x4xf32> -> tensor<8x8xf32>
  %wanted = graph.reshape %targets : tensor<2x4xi32> -> tensor<8xi32>
  %loss = graph.linear_cross_entropy %hidden, %w, %wanted : tensor<8x8xf32>, tensor<16x8xf32>, tensor<8xi32> -> tensor<2xf32>
  return %loss : tensor<2xf32>
}

// -----

// Rows of a table of each position's own stay where they are: their numbers are those in the row.
// CHECK-LABEL: func.func @eval(
// CHECK:         %[[FIRST:.*]] = graph.iota 1 : tensor<1x4xi32>
// CHECK:         graph.mul
// CHECK:         %[[PLACE:.*]] = graph.add
// CHECK:         graph.embedding_grad %[[PLACE]]
func.func @eval(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<1x4xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %two = graph.constant dense<2> : tensor<1x4xi32>
  %row = graph.iota 1 : tensor<1x4xi32>
  %begin = graph.mul %row, %two : tensor<1x4xi32>
  %expert = graph.remainder %tokens, %two : tensor<1x4xi32>
  %place = graph.add %begin, %expert : tensor<1x4xi32>
  %one = graph.constant dense<1.0> : tensor<1x4x1xf32>
  %weights = graph.embedding_grad %place, %one : tensor<1x4xi32>, tensor<1x4x1xf32> -> tensor<8x1xf32>
  %heads = graph.reshape %weights : tensor<8x1xf32> -> tensor<1x4x1x2xf32>
  %out = graph.attention %heads, %heads, %heads, 1.0 {causal} : tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>
  %hidden = graph.reshape %out : tensor<1x4x1x2xf32> -> tensor<4x2xf32>
  %wanted = graph.reshape %targets : tensor<1x4xi32> -> tensor<4xi32>
  %loss = graph.linear_cross_entropy %hidden, %w, %wanted : tensor<4x2xf32>, tensor<16x2xf32>, tensor<4xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// States and short convolutions begin anew in each document; what decays by the position in the row decays by that in the document.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME:    %[[STARTS:[a-z0-9]+]]: tensor<2x4xi32> {graph.role = #graph.role<document_starts>}
// CHECK:         %[[SUM:.*]] = graph.causal_convolution %{{.*}}, %{{.*}} within %[[STARTS]] : tensor<2x4xi32> : tensor<2x4x2xf32>, tensor<2x3xf32>
// CHECK:         %[[DECAY:.*]] = graph.embedding %{{.*}}, %{{.*}} : tensor<4x1xf32>, tensor<2x4xi32> -> tensor<2x4x1xf32>
// CHECK:         graph.linear_attention %{{.*}} decay %{{.*}} : tensor<2x4x1x1xf32> within %[[STARTS]] : tensor<2x4xi32> {chunk = 2 : i64}
func.func @eval(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<2x4xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}, %c: tensor<2x3xf32> {graph.role = #graph.role<parameter>, graph.name = "c"})
    -> (tensor<2xf32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %table = graph.constant dense<[[-1.0], [-0.5], [-0.25], [-0.125]]> : tensor<4x1xf32>
  %words = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<2x4xi32> -> tensor<2x4x2xf32>
  %sum = graph.causal_convolution %words, %c : tensor<2x4x2xf32>, tensor<2x3xf32>
  %q = graph.reshape %sum : tensor<2x4x2xf32> -> tensor<2x4x1x2xf32>
  %column = graph.reshape %table : tensor<4x1xf32> -> tensor<1x4x1x1xf32>
  %decay = graph.broadcast %column : tensor<1x4x1x1xf32> -> tensor<2x4x1x1xf32>
  %y, %state = graph.linear_attention %q, %q, %q, 1.0 decay %decay : tensor<2x4x1x1xf32> {chunk = 2 : i64}
    : tensor<2x4x1x2xf32>, tensor<2x4x1x2xf32>, tensor<2x4x1x2xf32> -> tensor<2x4x1x2xf32>, tensor<2x1x2x2xf32>
  %hidden = graph.reshape %y : tensor<2x4x1x2xf32> -> tensor<8x2xf32>
  %wanted = graph.reshape %targets : tensor<2x4xi32> -> tensor<8xi32>
  %loss = graph.linear_cross_entropy %hidden, %w, %wanted : tensor<8x2xf32>, tensor<16x2xf32>, tensor<8xi32> -> tensor<2xf32>
  return %loss : tensor<2xf32>
}
