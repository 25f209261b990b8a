// RUN: ztc-opt %s --ztc-mark-recomputed -verify-diagnostics -split-input-file

// Backward reads nothing of the forward part but parameters.
module {
  // expected-warning @+1 {{--recompute=cheap changes nothing: backward reads no value that this level computes again}}
  func.func @microstep(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %t: tensor<4xi32>, %s: tensor<f32>) -> (tensor<f32>, tensor<4x4xf32>) attributes {graph.entry = #graph.entry<microstep>} {
    %n = graph.add %x, %x : tensor<4x4xf32>
    %loss, %dh, %dw = graph.linear_cross_entropy %n, %w, %t scale %s : tensor<f32> : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xi32> -> tensor<f32>, tensor<4x4xf32> and tensor<4x4xf32>
    %dx = graph.matmul %dh, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    return %loss, %dx : tensor<f32>, tensor<4x4xf32>
  }
}

// -----

// expected-error @+1 {{no @microstep computes a loss: nothing can be recomputed}}
module {
}
