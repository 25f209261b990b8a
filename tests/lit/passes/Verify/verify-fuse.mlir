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
  // expected-error @+1 {{F3: what it adds cannot be added in place}}
  %y = graph.accumulate %a, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
