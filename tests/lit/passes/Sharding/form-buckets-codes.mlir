// RUN: ztc-opt %s --ztc-form-buckets | FileCheck %s

// A weight that products in fp8 alone read lies in a bucket whose codes may be gathered; one with another reader, and norms, do not.
// CHECK: dist.bucket @block0_frozen {{.*}}name = "up"{{.*}}name = "norm"
// CHECK: dist.bucket @block0_frozen_fp8 {{.*}}parameters = [{name = "q", offset = 0 : i64, shape = array<i64: 16, 16>}]
module attributes {graph.precision = "fp8"} {
  func.func @microstep(%x: tensor<32x16xbf16> {graph.role = #graph.role<tokens>},
                       %norm: tensor<16xbf16> {graph.role = #graph.role<parameter>, graph.name = "norm", graph.layer = 0 : i64, graph.no_decay, graph.frozen},
                       %up: tensor<16x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "up", graph.layer = 0 : i64, graph.frozen},
                       %q: tensor<16x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "q", graph.layer = 0 : i64, graph.frozen})
      -> (tensor<32x16xbf16> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<microstep>} {
    %n = graph.rms_norm %x, %norm, 1.0e-5 : tensor<32x16xbf16>, tensor<16xbf16>
    %a = graph.matmul %n, %q {transpose_b, graph.fp8 = f8E5M2} : tensor<32x16xbf16>, tensor<16x16xbf16> -> tensor<32x16xbf16>
    %b = graph.matmul %a, %up {transpose_b, graph.fp8 = f8E5M2} : tensor<32x16xbf16>, tensor<16x16xbf16> -> tensor<32x16xbf16>
    %y = graph.matmul %b, %up : tensor<32x16xbf16>, tensor<16x16xbf16> -> tensor<32x16xbf16>
    return %y : tensor<32x16xbf16>
  }
}
