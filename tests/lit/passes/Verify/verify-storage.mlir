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

// Tables of cosines and sines are f32.
func.func @tables(%x: tensor<1x2x1x8xbf16>, %t: tensor<2x4xbf16>) -> tensor<1x2x1x8xbf16> {
  %y = graph.fusion "tables"(%t) : (tensor<2x4xbf16>) -> tensor<2x4xf32> {
  ^bb0(%a: tensor<2x4xbf16>):
    %b = graph.cast %a : tensor<2x4xbf16> -> tensor<2x4xf32>
    graph.yield %b : tensor<2x4xf32>
  }
  %z = graph.rope %x, %y, %y : tensor<1x2x1x8xbf16>, tensor<2x4xf32>
  return %z : tensor<1x2x1x8xbf16>
}

// -----

// A head that the policy keeps in f32 wants f32 rows too.
dist.bucket @head_f32 {decayed = 12 : i64, elements = 12 : i64, parameters = [{name = "head", offset = 0 : i64, shape = array<i64: 3, 4>}]}
func.func @kept(%x: tensor<2x4xbf16>, %t: tensor<2xi32>, %p: tensor<?xf32, #dist.full<@head_f32>>) -> tensor<f32> {
  %head = dist.view %p[0] : tensor<?xf32, #dist.full<@head_f32>> -> tensor<3x4xf32>
  %y = graph.fusion "hidden"(%x) : (tensor<2x4xbf16>) -> tensor<2x4xf32> {
  ^bb0(%a: tensor<2x4xbf16>):
    %b = graph.cast %a : tensor<2x4xbf16> -> tensor<2x4xf32>
    graph.yield %b : tensor<2x4xf32>
  }
  %loss = graph.linear_cross_entropy %y, %head, %t : tensor<2x4xf32>, tensor<3x4xf32>, tensor<2xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
