// RUN: ztc-opt %s --ztc-attach-loss --split-input-file | FileCheck %s

// The head's product and the loss become one op; the logits are gone. Each sequence has its loss.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME:    %[[TOKENS:.*]]: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %[[TARGETS:.*]]: tensor<2x4xi32> {graph.role = #graph.role<targets>},
// CHECK-SAME:    %[[W:.*]]: tensor<16x8xf32> {graph.name = "w", graph.role = #graph.role<parameter>}) -> (tensor<2xf32> {graph.result = #graph.result<loss>})
// CHECK:         %[[HIDDEN:.*]] = graph.embedding
// CHECK:         %[[FLAT:.*]] = graph.reshape %[[TARGETS]] : tensor<2x4xi32> -> tensor<8xi32>
// CHECK:         %[[LOSS:.*]] = graph.linear_cross_entropy %[[HIDDEN]], %[[W]], %[[FLAT]] : tensor<8x8xf32>, tensor<16x8xf32>, tensor<8xi32> -> tensor<2xf32>
// CHECK-NEXT:    return %[[LOSS]] : tensor<2xf32>
func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
    -> (tensor<2x4x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
  %flat = graph.reshape %tokens : tensor<2x4xi32> -> tensor<8xi32>
  %hidden = graph.embedding %w, %flat : tensor<16x8xf32>, tensor<8xi32> -> tensor<8x8xf32>
  %y = graph.matmul %hidden, %w {transpose_b} : tensor<8x8xf32>, tensor<16x8xf32> -> tensor<8x16xf32>
  %logits = graph.reshape %y : tensor<8x16xf32> -> tensor<2x4x16xf32>
  return %logits : tensor<2x4x16xf32>
}

// -----

// What a head scales and caps is done chunk by chunk too: 4 tanh(x / 8) = 4 tanh(x / 2 / 4).
// CHECK-LABEL: func.func @eval(
// CHECK-NOT:     graph.matmul
// CHECK:         graph.linear_cross_entropy %{{.*}} {logit_scale = 5.000000e-01 : f64, softcap = 4.000000e+00 : f64} : tensor<8x8xf32>, tensor<16x8xf32>
func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
    -> (tensor<2x4x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
  %flat = graph.reshape %tokens : tensor<2x4xi32> -> tensor<8xi32>
  %hidden = graph.embedding %w, %flat : tensor<16x8xf32>, tensor<8xi32> -> tensor<8x8xf32>
  %y = graph.matmul %hidden, %w {transpose_b} : tensor<8x8xf32>, tensor<16x8xf32> -> tensor<8x16xf32>
  %y3 = graph.reshape %y : tensor<8x16xf32> -> tensor<2x4x16xf32>
  %eight = graph.constant dense<8.0> : tensor<2x4x16xf32>
  %four = graph.constant dense<4.0> : tensor<f32>
  %fours = graph.broadcast %four : tensor<f32> -> tensor<2x4x16xf32>
  %part = graph.div %y3, %eight : tensor<2x4x16xf32>
  %bent = graph.tanh %part : tensor<2x4x16xf32>
  %logits = graph.mul %fours, %bent : tensor<2x4x16xf32>
  return %logits : tensor<2x4x16xf32>
}

// -----

// Logits that come about in another way.
// CHECK-LABEL: func.func @eval(
// CHECK:         %[[LOGITS:.*]] = graph.tanh
// CHECK-DAG:     %[[FLAT:.*]] = graph.reshape %{{.*}} : tensor<2x4xi32> -> tensor<8xi32>
// CHECK-DAG:     %[[ROWS:.*]] = graph.reshape %[[LOGITS]] : tensor<2x4x16xf32> -> tensor<8x16xf32>
// CHECK:         graph.cross_entropy %[[ROWS]], %[[FLAT]] : tensor<8x16xf32>, tensor<8xi32> -> tensor<2xf32>
func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
    -> (tensor<2x4x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
  %y = graph.embedding %w, %tokens : tensor<16x16xf32>, tensor<2x4xi32> -> tensor<2x4x16xf32>
  %logits = graph.tanh %y : tensor<2x4x16xf32>
  return %logits : tensor<2x4x16xf32>
}
