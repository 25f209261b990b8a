// RUN: ztc-opt %s --ztc-quantize-products | FileCheck %s

// Matrices have the names of the parameters that they are multiplied with: of all that a view of a bucket spans (q and k, one product), numbered where
// a parameter is used again (up). What is multiplied with no parameter, since the gradient of the embedding is not asked for, has those of the layer
// whose input it meets.
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    graph.fp8_names = {{\[\[}}"q.input", "k.input"], ["up.input"], ["up.input.2"], ["up.cotangent"], ["up.cotangent.2"], ["q.cotangent", "k.cotangent"]]
module attributes {dist.zero = 0 : i64, graph.delayed_scaling, graph.precision = "fp8"} {
  dist.bucket @block0 {decayed = 1024 : i64, elements = 1024 : i64, layer = 0 : i64, trainable, parameters = [
    {name = "q", offset = 0 : i64, shape = array<i64: 16, 16>}, {name = "k", offset = 256 : i64, shape = array<i64: 16, 16>},
    {name = "up", offset = 512 : i64, shape = array<i64: 32, 16>}]}
  dist.bucket @embed {decayed = 512 : i64, elements = 512 : i64, parameters = [{name = "e", offset = 0 : i64, shape = array<i64: 32, 16>}]}
  func.func @microstep(%tokens: tensor<32xi32> {graph.role = #graph.role<tokens>}, %step: tensor<16xf32> {graph.role = #graph.role<step>},
                       %b: tensor<1024xbf16> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @block0},
                       %t: tensor<512xbf16> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @embed})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>) attributes {graph.entry = #graph.entry<microstep>} {
    %e = dist.view %t[0] : tensor<512xbf16> -> tensor<32x16xbf16>
    %qk = dist.view %b[0] : tensor<1024xbf16> -> tensor<32x16xbf16>
    %up = dist.view %b[512] : tensor<1024xbf16> -> tensor<32x16xbf16>
    %x = graph.embedding %e, %tokens : tensor<32x16xbf16>, tensor<32xi32> -> tensor<32x16xbf16>
    %h = graph.matmul %x, %qk {graph.fp8 = f8E5M2, transpose_b} : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<32x32xbf16>
    %a = graph.sigmoid %h : tensor<32x32xbf16>
    %y = graph.matmul %a, %up {graph.fp8 = f8E5M2} : tensor<32x32xbf16>, tensor<32x16xbf16> -> tensor<32x16xbf16>
    %c = graph.tanh %a : tensor<32x32xbf16>
    %z = graph.matmul %c, %up {graph.fp8 = f8E5M2} : tensor<32x32xbf16>, tensor<32x16xbf16> -> tensor<32x16xbf16>
    %r = graph.add %y, %z : tensor<32x16xbf16>
    %s = graph.slice %step, [0] : tensor<16xf32> -> tensor<1xf32>
    %scale = graph.reshape %s : tensor<1xf32> -> tensor<f32>
    %loss, %dr, %de = graph.linear_cross_entropy %r, %e, %tokens scale %scale : tensor<f32> : tensor<32x16xbf16>, tensor<32x16xbf16>, tensor<32xi32> -> tensor<f32>, tensor<32x16xbf16> and tensor<32x16xf32>
    %dc = graph.matmul %dr, %up {graph.fp8 = f8E5M2, transpose_b} : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<32x32xbf16>
    %dy = graph.sigmoid %dr : tensor<32x16xbf16>
    %da = graph.matmul %dy, %up {graph.fp8 = f8E5M2, transpose_b} : tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<32x32xbf16>
    %dh = graph.add %dc, %da : tensor<32x32xbf16>
    %dup = graph.matmul %c, %dr {graph.fp8 = f8E5M2, transpose_a} : tensor<32x32xbf16>, tensor<32x16xbf16> -> tensor<32x16xf32>
    %dup2 = graph.matmul %a, %dy {graph.fp8 = f8E5M2, transpose_a} : tensor<32x32xbf16>, tensor<32x16xbf16> -> tensor<32x16xf32>
    %dqk = graph.matmul %dh, %x {graph.fp8 = f8E5M2, transpose_a} : tensor<32x32xbf16>, tensor<32x16xbf16> -> tensor<32x16xf32>
    return %loss, %dup, %dup2, %dqk : tensor<f32>, tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>
  }
}
