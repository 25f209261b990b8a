// RUN: ztc-opt %s --ztc-pack-documents --split-input-file --verify-diagnostics

func.func @eval(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<1x4xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %words = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<1x4xi32> -> tensor<1x4x2xf32>
  %heads = graph.reshape %words : tensor<1x4x2xf32> -> tensor<1x4x1x2xf32>
  // expected-error@+1 {{rows cannot hold several documents: graph.attention sees later positions}}
  %out = graph.attention %heads, %heads, %heads, 1.0 : tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>
  %hidden = graph.reshape %out : tensor<1x4x1x2xf32> -> tensor<4x2xf32>
  %wanted = graph.reshape %targets : tensor<1x4xi32> -> tensor<4xi32>
  %loss = graph.linear_cross_entropy %hidden, %w, %wanted : tensor<4x2xf32>, tensor<16x2xf32>, tensor<4xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A convolution along the row: the state of a state-space model begins like this.
func.func @eval(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<1x4xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %words = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<1x4xi32> -> tensor<1x4x2xf32>
  // expected-error@+1 {{rows cannot hold several documents: graph.slice takes some of the positions}}
  %before = graph.slice %words, [0, 0, 0] : tensor<1x4x2xf32> -> tensor<1x3x2xf32>
  %hidden = graph.reshape %words : tensor<1x4x2xf32> -> tensor<4x2xf32>
  %wanted = graph.reshape %targets : tensor<1x4xi32> -> tensor<4xi32>
  %loss = graph.linear_cross_entropy %hidden, %w, %wanted : tensor<4x2xf32>, tensor<16x2xf32>, tensor<4xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Scores under a mask of the model's own.
func.func @eval(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<1x4xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %words = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<1x4xi32> -> tensor<1x4x2xf32>
  // expected-error@+1 {{rows cannot hold several documents: graph.matmul multiplies positions with positions}}
  %scores = graph.matmul %words, %words {transpose_b} : tensor<1x4x2xf32>, tensor<1x4x2xf32> -> tensor<1x4x4xf32>
  %hidden = graph.reshape %words : tensor<1x4x2xf32> -> tensor<4x2xf32>
  %wanted = graph.reshape %targets : tensor<1x4xi32> -> tensor<4xi32>
  %loss = graph.linear_cross_entropy %hidden, %w, %wanted : tensor<4x2xf32>, tensor<16x2xf32>, tensor<4xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// expected-error@+1 {{rows cannot hold several documents: no attention is in the model}}
func.func @eval(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<1x4xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %words = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<1x4xi32> -> tensor<1x4x2xf32>
  %hidden = graph.reshape %words : tensor<1x4x2xf32> -> tensor<4x2xf32>
  %wanted = graph.reshape %targets : tensor<1x4xi32> -> tensor<4xi32>
  %loss = graph.linear_cross_entropy %hidden, %w, %wanted : tensor<4x2xf32>, tensor<16x2xf32>, tensor<4xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// expected-error@+1 {{has no function @eval with a body}}
module {}

// -----

// A state that was there before the row.
func.func @eval(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<1x4xi32> {graph.role = #graph.role<targets>},
                %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}, %s: tensor<1x1x2x2xf32> {graph.role = #graph.role<parameter>, graph.name = "s"})
    -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %words = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<1x4xi32> -> tensor<1x4x2xf32>
  %q = graph.reshape %words : tensor<1x4x2xf32> -> tensor<1x4x1x2xf32>
  // expected-error@+1 {{rows cannot hold several documents: graph.linear_attention begins with a past or hands on its last state}}
  %y, %state = graph.linear_attention %q, %q, %q, 1.0 past %s : tensor<1x1x2x2xf32> {chunk = 2 : i64}
    : tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32> -> tensor<1x4x1x2xf32>, tensor<1x1x2x2xf32>
  %hidden = graph.reshape %y : tensor<1x4x1x2xf32> -> tensor<4x2xf32>
  %wanted = graph.reshape %targets : tensor<1x4xi32> -> tensor<4xi32>
  %loss = graph.linear_cross_entropy %hidden, %w, %wanted : tensor<4x2xf32>, tensor<16x2xf32>, tensor<4xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
