// RUN: ztc-opt %s --ztc-attach-loss=weights=true --ztc-drop-forward --ztc-differentiate | FileCheck %s
// RUN: sed 's/^module {/module attributes {graph.loss_weights} {/' %s | ztc-opt --ztc-attach-loss --ztc-drop-forward --ztc-differentiate | FileCheck %s

// With weights @eval and @microstep take them after the targets, and each row's loss and cotangents are multiplied by its weight. An imported graph that has
// such an input asks for the same.
// CHECK-LABEL: func.func @eval(
// CHECK-SAME:    %[[TARGETS:.*]]: tensor<2x4xi32> {graph.role = #graph.role<targets>}, %[[WEIGHTS:.*]]: tensor<2x4xf32> {graph.role = #graph.role<loss_weights>},
// CHECK:         %[[ROWS:.*]] = graph.reshape %[[WEIGHTS]] : tensor<2x4xf32> -> tensor<8xf32>
// CHECK:         graph.linear_cross_entropy %{{.*}} weights %[[ROWS]] : tensor<8xf32> : tensor<8x8xf32>, tensor<16x8xf32>, tensor<8xi32> -> tensor<2xf32>
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    {graph.role = #graph.role<targets>}, %{{.*}}: tensor<20xf32> {graph.role = #graph.role<step>}, %[[WEIGHTS:.*]]: tensor<2x4xf32> {graph.role = #graph.role<loss_weights>},
// CHECK:         %[[ROWS:.*]] = graph.reshape %[[WEIGHTS]] : tensor<2x4xf32> -> tensor<8xf32>
// CHECK:         graph.linear_cross_entropy %{{.*}} scale %{{.*}} : tensor<f32> weights %[[ROWS]] : tensor<8xf32>
module {
  func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<2x4x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
    %flat = graph.reshape %tokens : tensor<2x4xi32> -> tensor<8xi32>
    %hidden = graph.embedding %w, %flat : tensor<16x8xf32>, tensor<8xi32> -> tensor<8x8xf32>
    %y = graph.matmul %hidden, %w {transpose_b} : tensor<8x8xf32>, tensor<16x8xf32> -> tensor<8x16xf32>
    %logits = graph.reshape %y : tensor<8x16xf32> -> tensor<2x4x16xf32>
    return %logits : tensor<2x4x16xf32>
  }
}
