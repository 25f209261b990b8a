// RUN: ztc-opt %s --ztc-choose-fp8-products | FileCheck %s
// RUN: ztc-opt %s --ztc-choose-fp8-products=gradients=e4m3 | FileCheck %s --check-prefix=SAME
// RUN: ztc-opt %s --ztc-choose-fp8-products=keep=down | FileCheck %s --check-prefix=KEPT

// A linear layer of a block and its gradients; not the head, not a product of another size.
// CHECK-LABEL: func.func @microstep(
// CHECK:         graph.matmul %{{.*}}, %{{.*}} {graph.fp8 = f8E5M2, transpose_b} : tensor<32x16xbf16>, tensor<48x16xbf16>
// CHECK:         graph.matmul %{{.*}}, %{{.*}} {graph.fp8 = f8E5M2, transpose_b} : tensor<32x48xbf16>, tensor<16x48xbf16>
// CHECK:         graph.matmul %{{.*}}, %{{.*}} {transpose_b} : tensor<32x16xbf16>, tensor<8x16xbf16>
// CHECK:         graph.matmul %{{.*}}, %{{.*}} : tensor<32x8xbf16>, tensor<8x16xbf16>
// CHECK:         graph.linear_cross_entropy
// CHECK-COUNT-2: graph.matmul %{{.*}}, %{{.*}} {graph.fp8 = f8E5M2} :
// CHECK:         graph.matmul %{{.*}}, %{{.*}} {graph.fp8 = f8E5M2, transpose_a} : tensor<32x16xbf16>, tensor<32x48xbf16> -> tensor<16x48xf32>

// SAME-COUNT-5:  graph.fp8 = f8E4M3FN
// SAME-NOT:      graph.fp8

// KEPT-COUNT-2:  graph.fp8
// KEPT-NOT:      graph.fp8

// What is evaluated and generated stays bf16.
// CHECK-LABEL: func.func @eval(
// CHECK-NOT:     graph.fp8
module attributes {graph.precision = "fp8"} {
  func.func @microstep(%tokens: tensor<32xi32> {graph.role = #graph.role<tokens>}, %step: tensor<16xf32> {graph.role = #graph.role<step>},
                       %e: tensor<32x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "e", graph.frozen},
                       %up: tensor<48x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "up", graph.layer = 0 : i64, graph.frozen},
                       %down: tensor<16x48xbf16> {graph.role = #graph.role<parameter>, graph.name = "down", graph.layer = 0 : i64},
                       %small: tensor<8x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "small", graph.layer = 0 : i64, graph.frozen})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<16x48xf32> {graph.result = #graph.result<gradient>, graph.name = "down"}) attributes {graph.entry = #graph.entry<microstep>} {
    %x = graph.embedding %e, %tokens : tensor<32x16xbf16>, tensor<32xi32> -> tensor<32x16xbf16>
    %h = graph.matmul %x, %up {transpose_b} : tensor<32x16xbf16>, tensor<48x16xbf16> -> tensor<32x48xbf16>
    %a = graph.sigmoid %h : tensor<32x48xbf16>
    %y = graph.matmul %a, %down {transpose_b} : tensor<32x48xbf16>, tensor<16x48xbf16> -> tensor<32x16xbf16>
    %r = graph.matmul %y, %small {transpose_b} : tensor<32x16xbf16>, tensor<8x16xbf16> -> tensor<32x8xbf16>
    %t = graph.matmul %r, %small : tensor<32x8xbf16>, tensor<8x16xbf16> -> tensor<32x16xbf16>
    %s = graph.slice %step, [0] : tensor<16xf32> -> tensor<1xf32>
    %scale = graph.reshape %s : tensor<1xf32> -> tensor<f32>
    %loss, %dy, %de = graph.linear_cross_entropy %t, %e, %tokens scale %scale : tensor<f32> : tensor<32x16xbf16>, tensor<32x16xbf16>, tensor<32xi32> -> tensor<f32>, tensor<32x16xbf16> and tensor<32x16xf32>
    %da = graph.matmul %dy, %down : tensor<32x16xbf16>, tensor<16x48xbf16> -> tensor<32x48xbf16>
    %dx = graph.matmul %da, %up : tensor<32x48xbf16>, tensor<48x16xbf16> -> tensor<32x16xbf16>
    %dw = graph.matmul %dy, %a {transpose_a} : tensor<32x16xbf16>, tensor<32x48xbf16> -> tensor<16x48xf32>
    return %loss, %dw : tensor<f32>, tensor<16x48xf32>
  }
  func.func @eval(%tokens: tensor<32xi32> {graph.role = #graph.role<tokens>}, %e: tensor<32x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "e", graph.frozen},
                  %up: tensor<48x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "up", graph.layer = 0 : i64, graph.frozen})
      -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
    %x = graph.embedding %e, %tokens : tensor<32x16xbf16>, tensor<32xi32> -> tensor<32x16xbf16>
    %h = graph.matmul %x, %up {transpose_b} : tensor<32x16xbf16>, tensor<48x16xbf16> -> tensor<32x48xbf16>
    %d = graph.matmul %h, %up : tensor<32x48xbf16>, tensor<48x16xbf16> -> tensor<32x16xbf16>
    %loss = graph.linear_cross_entropy %d, %e, %tokens : tensor<32x16xbf16>, tensor<32x16xbf16>, tensor<32xi32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}
