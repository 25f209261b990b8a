// RUN: ztc-opt %s --ztc-differentiate --split-input-file 2>/dev/null | FileCheck %s

// A tied parameter: the embedding's rows are added to what the loss wrote. The backward part comes in reverse order.
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    %[[TOKENS:.*]]: tensor<8xi32> {graph.role = #graph.role<tokens>}, %[[TARGETS:.*]]: tensor<8xi32> {graph.role = #graph.role<targets>},
// CHECK-SAME:    %[[STEP:.*]]: tensor<20xf32> {graph.role = #graph.role<step>}, %[[W:.*]]: tensor<16x8xf32> {{.*}}, %[[N:.*]]: tensor<8xf32>
// CHECK-SAME:    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<16x8xf32> {graph.name = "w", graph.result = #graph.result<gradient>},
// CHECK-SAME:        tensor<8xf32> {graph.name = "n", graph.result = #graph.result<gradient>})
// CHECK:         %[[X:.*]] = graph.embedding %[[W]], %[[TOKENS]]
// CHECK:         %[[H:.*]] = graph.rms_norm %[[X]], %[[N]]
// CHECK:         %[[FIELD:.*]] = graph.slice %[[STEP]], [0] : tensor<20xf32> -> tensor<1xf32>
// CHECK:         %[[SCALE:.*]] = graph.reshape %[[FIELD]] : tensor<1xf32> -> tensor<f32>
// CHECK:         %[[LOSS:.*]], %[[DH:.*]], %[[DW:.*]] = graph.linear_cross_entropy %[[H]], %[[W]], %[[TARGETS]] scale %[[SCALE]]
// CHECK:         %[[DX:.*]], %[[DN:.*]] = graph.rms_norm_grad %[[X]], %[[N]], %[[DH]]
// CHECK:         %[[ROWS:.*]] = graph.embedding_grad %[[TOKENS]], %[[DX]]
// CHECK:         %[[SUM:.*]] = graph.accumulate %[[DW]], %[[ROWS]] : tensor<16x8xf32>
// CHECK:         return %[[LOSS]], %[[SUM]], %[[DN]]
func.func @eval(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<8xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                %n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "n"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %w, %tokens : tensor<16x8xf32>, tensor<8xi32> -> tensor<8x8xf32>
  %h = graph.rms_norm %x, %n, 1.0e-5 : tensor<8x8xf32>, tensor<8xf32>
  %loss = graph.linear_cross_entropy %h, %w, %targets : tensor<8x8xf32>, tensor<16x8xf32>, tensor<8xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A frozen head has no cotangent.
// CHECK-LABEL: func.func @microstep(
// CHECK:         %{{.*}}, %{{.*}} = graph.linear_cross_entropy {{.*}} scale {{.*}} -> tensor<f32>, tensor<8x8xf32>{{$}}
func.func @eval(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<8xi32> {graph.role = #graph.role<targets>},
                %e: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "e"},
                %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w", graph.frozen}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %e, %tokens : tensor<16x8xf32>, tensor<8xi32> -> tensor<8x8xf32>
  %loss = graph.linear_cross_entropy %x, %w, %targets : tensor<8x8xf32>, tensor<16x8xf32>, tensor<8xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Attention is replaced by its form with row statistics; a frozen parameter gets no gradient and needs no code.
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4x4xf32> {graph.name = "q", graph.result = #graph.result<gradient>})
// CHECK:         %[[OUT:.*]], %[[LSE:.*]] = graph.attention
// CHECK-SAME:    -> tensor<1x1x8xf32>
// CHECK:         graph.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[OUT]], %[[LSE]]
// CHECK-NOT:     graph.embedding_grad
// CHECK:         return
func.func @eval(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<8xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x4xf32> {graph.role = #graph.role<parameter>, graph.name = "w", graph.frozen},
                %q: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.name = "q"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %w, %tokens : tensor<16x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
  %xq = graph.matmul %x, %q {transpose_b} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %x4 = graph.reshape %x : tensor<8x4xf32> -> tensor<1x8x1x4xf32>
  %q4 = graph.reshape %xq : tensor<8x4xf32> -> tensor<1x8x1x4xf32>
  %a = graph.attention %q4, %x4, %x4, 5.0e-1 {causal} : tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>
  %h = graph.reshape %a : tensor<1x8x1x4xf32> -> tensor<8x4xf32>
  %loss = graph.linear_cross_entropy %h, %w, %targets : tensor<8x4xf32>, tensor<16x4xf32>, tensor<8xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A loss over logits is seeded with 1/N.
// CHECK-LABEL: func.func @microstep(
// CHECK:         %[[LOSS:.*]] = graph.cross_entropy
// CHECK:         %[[SCALE:.*]] = graph.reshape %{{.*}} : tensor<1xf32> -> tensor<f32>
// CHECK:         graph.cross_entropy_grad %{{.*}}, %{{.*}}, %[[SCALE]]
// An unused parameter is not trained.
// CHECK:         return %[[LOSS]], %{{[^,]*}} : tensor<f32>, tensor<16x16xf32>
func.func @eval(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<8xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                %unused: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "unused"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %w, %tokens : tensor<16x16xf32>, tensor<8xi32> -> tensor<8x16xf32>
  %loss = graph.cross_entropy %x, %targets : tensor<8x16xf32>, tensor<8xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// The cotangents of many pieces of one value are joined, with zeros where nothing reads a piece, not padded and added up.
// CHECK-LABEL: func.func @microstep(
// CHECK-NOT:     graph.pad
// CHECK:         %[[UNREAD:.*]] = graph.constant dense<0.000000e+00> : tensor<2x16xf32>
// CHECK:         graph.concat %{{.*}}, %{{.*}}, %[[UNREAD]], %{{.*}} axis 0 : tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16xf32> -> tensor<8x16xf32>
// CHECK-NOT:     graph.pad
func.func @eval(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<2xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %w, %tokens : tensor<16x16xf32>, tensor<8xi32> -> tensor<8x16xf32>
  %y = graph.exp %x : tensor<8x16xf32>
  %a = graph.slice %y, [0, 0] : tensor<8x16xf32> -> tensor<2x16xf32>
  %b = graph.slice %y, [2, 0] : tensor<8x16xf32> -> tensor<2x16xf32>
  %c = graph.slice %y, [4, 0] : tensor<8x16xf32> -> tensor<2x16xf32>
  %d = graph.slice %y, [6, 0] : tensor<8x16xf32> -> tensor<2x16xf32>
  %ab = graph.mul %a, %b : tensor<2x16xf32>
  %abd = graph.mul %ab, %d : tensor<2x16xf32>
  %loss = graph.cross_entropy %abd, %targets : tensor<2x16xf32>, tensor<2xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
