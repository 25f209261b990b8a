// RUN: ztc-opt %s --ztc-build-generate --split-input-file | FileCheck %s

// One hidden row is gathered before the head.
// CHECK-LABEL: func.func @generate(
// CHECK-SAME:    %{{.*}}: tensor<2x4xi32> {graph.role = "tokens"}, %[[POSITION:.*]]: tensor<1xi32> {graph.role = "position"},
// CHECK-SAME:    %[[W:.*]]: tensor<16x8xf32>
// CHECK-SAME:    -> (tensor<1x16xf32> {graph.result = "logits"})
// CHECK:         %[[HIDDEN:.*]] = graph.embedding %[[W]]
// CHECK-NEXT:    %[[ROW:.*]] = graph.embedding %[[HIDDEN]], %[[POSITION]] : tensor<8x8xf32>, tensor<1xi32> -> tensor<1x8xf32>
// CHECK-NEXT:    %[[LOGITS:.*]] = graph.matmul %[[ROW]], %[[W]] {transpose_b} : tensor<1x8xf32>, tensor<16x8xf32> -> tensor<1x16xf32>
// CHECK-NEXT:    return %[[LOGITS]]
func.func @forward(%tokens: tensor<2x4xi32> {graph.role = "tokens"}, %w: tensor<16x8xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<2x4x16xf32> {graph.result = "logits"}) {
  %flat = graph.reshape %tokens : tensor<2x4xi32> -> tensor<8xi32>
  %hidden = graph.embedding %w, %flat : tensor<16x8xf32>, tensor<8xi32> -> tensor<8x8xf32>
  %y = graph.matmul %hidden, %w {transpose_b} : tensor<8x8xf32>, tensor<16x8xf32> -> tensor<8x16xf32>
  %logits = graph.reshape %y : tensor<8x16xf32> -> tensor<2x4x16xf32>
  return %logits : tensor<2x4x16xf32>
}

// -----

// So it is where logits are scaled and capped.
// CHECK-LABEL: func.func @generate(
// CHECK:         graph.matmul %{{.*}} : tensor<1x8xf32>, tensor<16x8xf32> -> tensor<1x16xf32>
// CHECK:         %[[BENT:.*]] = graph.tanh %{{.*}} : tensor<1x16xf32>
// CHECK:         %[[LOGITS:.*]] = graph.mul %[[BENT]], %{{.*}} : tensor<1x16xf32>
// CHECK-NEXT:    return %[[LOGITS]]
func.func @forward(%tokens: tensor<2x4xi32> {graph.role = "tokens"}, %w: tensor<16x8xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<8x16xf32> {graph.result = "logits"}) {
  %flat = graph.reshape %tokens : tensor<2x4xi32> -> tensor<8xi32>
  %hidden = graph.embedding %w, %flat : tensor<16x8xf32>, tensor<8xi32> -> tensor<8x8xf32>
  %y = graph.matmul %hidden, %w {transpose_b} : tensor<8x8xf32>, tensor<16x8xf32> -> tensor<8x16xf32>
  %cap = graph.constant dense<3.0> : tensor<8x16xf32>
  %part = graph.div %y, %cap : tensor<8x16xf32>
  %bent = graph.tanh %part : tensor<8x16xf32>
  %logits = graph.mul %bent, %cap : tensor<8x16xf32>
  return %logits : tensor<8x16xf32>
}
