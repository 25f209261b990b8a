// An f32 copy of a narrow value, and one that the policy asks for.
// RUN: ztc-opt %s --ztc-verify-storage -verify-diagnostics -split-input-file

func.func @w1(%x: tensor<2x4xbf16>) -> tensor<8xf32> {
  // expected-error @+1 {{W1: writes an f32 copy of a narrow value, which func.return reads}}
  %y = graph.fusion "copy"(%x) : (tensor<2x4xbf16>) -> tensor<8xf32> {
  ^bb0(%a: tensor<2x4xbf16>):
    %b = graph.cast %a : tensor<2x4xbf16> -> tensor<2x4xf32>
    %c = graph.reshape %b : tensor<2x4xf32> -> tensor<8xf32>
    graph.yield %c : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

// -----

func.func @logits(%x: tensor<2x4xbf16>, %t: tensor<2xi32>) -> tensor<f32> {
  %y = graph.fusion "logits"(%x) : (tensor<2x4xbf16>) -> tensor<2x4xf32> {
  ^bb0(%a: tensor<2x4xbf16>):
    %b = graph.cast %a : tensor<2x4xbf16> -> tensor<2x4xf32>
    graph.yield %b : tensor<2x4xf32>
  }
  %loss = graph.cross_entropy %y, %t : tensor<2x4xf32>, tensor<2xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
