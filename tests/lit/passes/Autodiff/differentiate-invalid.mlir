// RUN: ztc-opt %s --ztc-differentiate --split-input-file --verify-diagnostics

// All ops without a derivative are named at once.
func.func @eval(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<8xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %w, %tokens : tensor<16x16xf32>, tensor<8xi32> -> tensor<8x16xf32>
  // expected-error@+1 {{'graph.accumulate' op has no derivative, and a trainable parameter reaches the loss through it}}
  %y = graph.accumulate %x, %x : tensor<8x16xf32>
  %z = graph.reshape %y : tensor<8x16xf32> -> tensor<128xf32>
  // expected-error@+1 {{'graph.sum_squares' op has no derivative, and a trainable parameter reaches the loss through it}}
  %loss = graph.sum_squares %z : tensor<128xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// expected-error@+1 {{'func.func' op has no parameter to train: all are frozen or do not reach the loss}}
func.func @eval(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<8xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w", graph.frozen}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %w, %tokens : tensor<16x16xf32>, tensor<8xi32> -> tensor<8x16xf32>
  %loss = graph.cross_entropy %x, %targets : tensor<8x16xf32>, tensor<8xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
