// Each post-condition of phase `fuse`, broken once.
// RUN: ztc-opt %s --ztc-verify-fuse -verify-diagnostics -split-input-file

func.func @f1(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{F1: computes, but is neither in a group nor a library call}}
  %y = graph.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @f2(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.fusion "softmax"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    // expected-error @+1 {{F2: is a macro op inside of a group}}
    %s = graph.softmax %a : tensor<4xf32>
    graph.yield %s : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

func.func @f3(%x: tensor<4xf32>, %a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{F3: its addend cannot be added in place}}
  %y = graph.accumulate %a, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @f4(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %y = graph.fusion "exp_broadcast_mul"(%x, %w) is chain : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>, %b: tensor<8xf32>):
    // expected-error @+1 {{F4: is in a pointwise chain that may not contain it}}
    %e = graph.exp %b : tensor<8xf32>
    %c = graph.broadcast %e : tensor<8xf32> -> tensor<4x8xf32>
    %m = graph.mul %a, %c : tensor<4x8xf32>
    graph.yield %m : tensor<4x8xf32>
  }
  return %y : tensor<4x8xf32>
}

// -----

func.func @f4(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %z = graph.fusion "exp_neg"(%x) is chain : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    %e = graph.exp %a : tensor<4xf32>
    %n = graph.neg %e : tensor<4xf32>
    // expected-error @+1 {{F4: yields something other than the last op of a pointwise chain}}
    graph.yield %n, %e : tensor<4xf32>, tensor<4xf32>
  }
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}
