// RUN: ztc-opt %s --ztc-choose-fp8-products --ztc-quantize-products --ztc-verify-precision | FileCheck %s
// RUN: ztc-opt %s --ztc-choose-fp8-products=gradients=e4m3 --ztc-quantize-products --ztc-verify-precision | FileCheck %s --check-prefix=SAME
// RUN: ztc-opt %s --ztc-choose-fp8-products=keep=down --ztc-quantize-products --ztc-verify-precision | FileCheck %s --check-prefix=KEPT

// A linear layer of a block and its gradients read codes. Of what backward reads too one op gives both orders; a weight is quantised in front of each product, with the maxima of its rows found once;
// a cotangent that is a product is quantised like any other. The head, and a product of another size, stay bf16.
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    %[[UP:[^:]*]]: tensor<48x16xbf16> {graph.frozen, graph.layer = 0 : i64, graph.name = "up"
// CHECK-SAME:    %[[DOWN:[^:]*]]: tensor<16x48xbf16> {graph.layer = 0 : i64, graph.name = "down"
// CHECK-SAME:    %[[SMALL:[^:]*]]: tensor<8x16xbf16>
// CHECK:         %[[X:.*]] = graph.embedding
// CHECK:         %[[SX:.*]], %[[QX:.*]] = graph.quantize_fp8 %[[X]] {by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>
// CHECK:         %[[MU:.*]] = graph.row_amax %[[UP]] : tensor<48x16xbf16> -> tensor<48x1xbf16>
// CHECK:         %[[SU:.*]], %[[QU:.*]] = graph.quantize_fp8 %[[UP]] amax %[[MU]] : tensor<48x1xbf16> {by_rows, weight} : tensor<48x16xbf16> -> tensor<2xf32>, tensor<48x16xf8E4M3FN>
// CHECK:         %[[H:.*]] = graph.scaled_matmul %[[QX]], %[[QU]] scales %[[SX]], %[[SU]] : tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x48xbf16>
// CHECK:         %[[SA:.*]], %[[QA:.*]]:2 = graph.quantize_fp8 %{{.*}} {by_columns, by_rows} : tensor<32x48xbf16> -> tensor<2xf32>, tensor<32x48xf8E4M3FN>, tensor<48x32xf8E4M3FN>
// CHECK:         %[[MD:.*]] = graph.row_amax %[[DOWN]]
// CHECK:         graph.quantize_fp8 %[[DOWN]] amax %[[MD]] : tensor<16x1xbf16> {by_rows, weight}
// CHECK:         graph.scaled_matmul %[[QA]]#0
// CHECK:         graph.matmul %{{.*}}, %[[SMALL]] {transpose_b}
// CHECK:         graph.linear_cross_entropy
// CHECK-NOT:     graph.row_amax
// CHECK:         %[[SD:.*]], %[[QD:.*]]:2 = graph.quantize_fp8 %{{.*}} {by_columns, by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E5M2>, tensor<16x32xf8E5M2>
// CHECK:         %[[ST:.*]], %[[QT:.*]] = graph.quantize_fp8 %[[DOWN]] amax %[[MD]] : tensor<16x1xbf16> {by_columns, weight} : tensor<16x48xbf16> -> tensor<2xf32>, tensor<48x16xf8E4M3FN>
// CHECK:         %[[DA:.*]] = graph.scaled_matmul %[[QD]]#0, %[[QT]] scales %[[SD]], %[[ST]] : tensor<32x16xf8E5M2>, tensor<48x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x48xbf16>
// CHECK:         graph.quantize_fp8 %[[DA]] {by_rows} : tensor<32x48xbf16> -> tensor<2xf32>, tensor<32x48xf8E5M2>
// CHECK:         %[[DW:.*]] = graph.scaled_matmul %[[QD]]#1, %[[QA]]#1 scales %[[SD]], %[[SA]] : tensor<16x32xf8E5M2>, tensor<48x32xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<16x48xf32>
// CHECK:         return %{{.*}}, %[[DW]]

// SAME-NOT:      f8E5M2
// SAME-COUNT-5:  graph.scaled_matmul
// SAME-NOT:      f8E5M2

// KEPT-COUNT-2:  graph.scaled_matmul
// KEPT-NOT:      graph.scaled_matmul
// KEPT:          graph.matmul %{{.*}} {transpose_a} : tensor<32x16xbf16>, tensor<32x48xbf16> -> tensor<16x48xf32>

// What is evaluated and generated stays bf16.
// CHECK-LABEL: func.func @eval(
// CHECK-NOT:     f8E4M3FN
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
