// RUN: ztc-opt %s --ztc-verify-import --split-input-file --verify-diagnostics

module attributes {graph.batch = 2 : i64, graph.seq = 4 : i64, graph.vocabulary = 16 : i64} {
  func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<2x4x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
    %y = graph.embedding %w, %tokens : tensor<16x16xf32>, tensor<2x4xi32> -> tensor<2x4x16xf32>
    return %y : tensor<2x4x16xf32>
  }
}

// -----

// expected-error@+1 {{I1: the module has no @forward}}
module {}

// -----

module attributes {graph.batch = 2 : i64, graph.seq = 4 : i64, graph.vocabulary = 16 : i64} {
  func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}) -> (tensor<2x4x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
    // expected-error@+1 {{'arith.constant' op I1: is not a graph op}}
    %y = arith.constant dense<0.0> : tensor<2x4x16xf32>
    return %y : tensor<2x4x16xf32>
  }
}

// -----

// expected-error@+1 {{I2: graph.batch, graph.seq and graph.vocabulary should be positive, have 2, 0, 16}}
module attributes {graph.batch = 2 : i64, graph.vocabulary = 16 : i64} {
  func.func @forward() attributes {graph.entry = #graph.entry<forward>} {
    return
  }
}

// -----

module attributes {graph.batch = 2 : i64, graph.seq = 4 : i64, graph.vocabulary = 16 : i64} {
  // expected-error@+1 {{'func.func' op I2: tokens have type 'tensor<2x4xi64>', expected 'tensor<2x4xi32>'}}
  func.func @forward(%tokens: tensor<2x4xi64> {graph.role = #graph.role<tokens>}) attributes {graph.entry = #graph.entry<forward>} {
    return
  }
}

// -----

module attributes {graph.batch = 2 : i64, graph.seq = 4 : i64, graph.vocabulary = 16 : i64} {
  // expected-error@+1 {{'func.func' op I3: two arguments have the role parameter and the name 'w'}}
  func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                     %v: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) attributes {graph.entry = #graph.entry<forward>} {
    return
  }
}

// -----

module attributes {graph.batch = 2 : i64, graph.seq = 4 : i64, graph.vocabulary = 16 : i64} {
  func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) attributes {graph.entry = #graph.entry<forward>} {
    // expected-error@+1 {{'graph.cast' op I4: leads from float to float}}
    %y = graph.cast %w : tensor<16x16xf32> -> tensor<16x16xf16>
    return
  }
}

// -----

module attributes {graph.batch = 2 : i64, graph.seq = 4 : i64, graph.vocabulary = 16 : i64} {
  // expected-error@+1 {{'func.func' op I5: result 0 has type 'tensor<8x16xf32>', expected 'tensor<2x4x16xf32>'}}
  func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %w: tensor<16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
      -> (tensor<8x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
    %y = graph.embedding %w, %tokens : tensor<16x16xf32>, tensor<2x4xi32> -> tensor<2x4x16xf32>
    %z = graph.reshape %y : tensor<2x4x16xf32> -> tensor<8x16xf32>
    return %z : tensor<8x16xf32>
  }
}
