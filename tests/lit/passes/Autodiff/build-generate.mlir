// RUN: ztc-opt %s --ztc-build-generate --split-input-file | FileCheck %s

// One hidden row of each sequence is gathered before the head.
// CHECK-LABEL: func.func @generate(
// CHECK-SAME:    %{{.*}}: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %[[POSITION:.*]]: tensor<2xi32> {graph.role = #graph.role<position>},
// CHECK-SAME:    %[[W:.*]]: tensor<16x8xf32>
// CHECK-SAME:    -> (tensor<2x16xf32> {graph.result = #graph.result<logits>})
// CHECK:         %[[HIDDEN:.*]] = graph.embedding %[[W]]
// CHECK:         %[[ACTIVE:.*]] = graph.compare ge, %[[POSITION]], %{{.*}} : tensor<2xi32> -> tensor<2xi1>
// CHECK:         %[[PLACE:.*]] = graph.select %[[ACTIVE]], %[[POSITION]], %{{.*}} : tensor<2xi1>, tensor<2xi32>
// CHECK:         %[[INDEX:.*]] = graph.add %[[PLACE]], %{{.*}} : tensor<2xi32>
// CHECK-NEXT:    %[[ROWS:.*]] = graph.embedding %[[HIDDEN]], %[[INDEX]] : tensor<8x8xf32>, tensor<2xi32> -> tensor<2x8xf32>
// CHECK-NEXT:    %[[LOGITS:.*]] = graph.matmul %[[ROWS]], %[[W]] {transpose_b} : tensor<2x8xf32>, tensor<16x8xf32> -> tensor<2x16xf32>
// CHECK-NEXT:    return %[[LOGITS]]
func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
    -> (tensor<2x4x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
  %flat = graph.reshape %tokens : tensor<2x4xi32> -> tensor<8xi32>
  %hidden = graph.embedding %w, %flat : tensor<16x8xf32>, tensor<8xi32> -> tensor<8x8xf32>
  %y = graph.matmul %hidden, %w {transpose_b} : tensor<8x8xf32>, tensor<16x8xf32> -> tensor<8x16xf32>
  %logits = graph.reshape %y : tensor<8x16xf32> -> tensor<2x4x16xf32>
  return %logits : tensor<2x4x16xf32>
}

// -----

// So it is where logits are scaled and capped.
// CHECK-LABEL: func.func @generate(
// CHECK:         graph.matmul %{{.*}} : tensor<2x8xf32>, tensor<16x8xf32> -> tensor<2x16xf32>
// CHECK:         %[[BENT:.*]] = graph.tanh %{{.*}} : tensor<2x16xf32>
// CHECK:         %[[LOGITS:.*]] = graph.mul %[[BENT]], %{{.*}} : tensor<2x16xf32>
// CHECK-NEXT:    return %[[LOGITS]]
func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
    -> (tensor<8x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
  %flat = graph.reshape %tokens : tensor<2x4xi32> -> tensor<8xi32>
  %hidden = graph.embedding %w, %flat : tensor<16x8xf32>, tensor<8xi32> -> tensor<8x8xf32>
  %y = graph.matmul %hidden, %w {transpose_b} : tensor<8x8xf32>, tensor<16x8xf32> -> tensor<8x16xf32>
  %cap = graph.constant dense<3.0> : tensor<8x16xf32>
  %part = graph.div %y, %cap : tensor<8x16xf32>
  %bent = graph.tanh %part : tensor<8x16xf32>
  %logits = graph.mul %bent, %cap : tensor<8x16xf32>
  return %logits : tensor<8x16xf32>
}
