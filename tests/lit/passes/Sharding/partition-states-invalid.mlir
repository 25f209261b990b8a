// RUN: ztc-opt %s --ztc-partition-states -verify-diagnostics -split-input-file

// expected-error @+1 {{has no dist.zero: no stage was chosen}}
module {
}

// -----

module attributes {dist.zero = 1 : i64} {
  // expected-error @+1 {{argument 0 (state_bucket) is not a whole bucket: 'tensor<8xf32>'}}
  func.func @update(%m: tensor<8xf32> {graph.role = #graph.role<state_bucket>, graph.state = "exp_avg", graph.bucket = @b}) attributes {graph.entry = #graph.entry<update>} {
    return
  }
}

// -----

module attributes {dist.zero = 2 : i64} {
  // expected-error @+1 {{result 0 is a gradient, but not a dist.pack of a whole bucket}}
  func.func @microstep(%g: tensor<?xf32, #dist.full<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b})
      -> (tensor<?xf32, #dist.full<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
    return %g : tensor<?xf32, #dist.full<@b>>
  }
}

// -----

module attributes {dist.zero = 0 : i64} {
  // expected-error @+1 {{takes no gradient bucket @b}}
  func.func @microstep(%a: tensor<8xf32>) -> (tensor<?xf32, #dist.full<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
    %g = dist.pack %a at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
    return %g : tensor<?xf32, #dist.full<@b>>
  }
}
