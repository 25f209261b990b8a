// RUN: ztc-opt %s --ztc-quantize-products | FileCheck %s
// RUN: ztc-opt %s --ztc-merge-products --ztc-quantize-products | FileCheck %s --check-prefix=MERGED

// Two views of one place in a bucket are one weight, whose maxima are found once; products that are not marked stay.
// CHECK-LABEL: func.func @microstep(
// CHECK:         %[[M:.*]] = graph.row_amax %{{.*}} : tensor<32x16xbf16> -> tensor<32x1xbf16>
// CHECK:         graph.quantize_fp8 %{{.*}} amax %[[M]] : tensor<32x1xbf16> {by_rows, weight}
// CHECK:         graph.scaled_matmul
// CHECK-NOT:     graph.fp8
// CHECK:         graph.row_amax %{{.*}} : tensor<32x16xbf16> -> tensor<32x1xbf16>
// CHECK:         graph.scaled_matmul
// CHECK:         graph.matmul
// CHECK-NOT:     graph.row_amax
// CHECK:         graph.quantize_fp8 %{{.*}} amax %[[M]] : tensor<32x1xbf16> {by_columns, weight}
// CHECK:         graph.scaled_matmul

// Neighbours are merged before: one product, one scale.
// MERGED-LABEL: func.func @microstep(
// MERGED:        %[[M:.*]] = graph.row_amax %{{.*}} : tensor<64x16xbf16> -> tensor<64x1xbf16>
// MERGED:        graph.quantize_fp8 %{{.*}} amax %[[M]] : tensor<64x1xbf16> {by_rows, weight} : tensor<64x16xbf16>
// MERGED:        graph.scaled_matmul %{{.*}} -> tensor<16x64xbf16>
module attributes {graph.precision = "fp8"} {
  func.func @microstep(%a: tensor<16x16xbf16>, %g: tensor<16x32xbf16>, %b: tensor<1536xbf16>) -> (tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x16xbf16>)
      attributes {graph.entry = #graph.entry<microstep>} {
    %x = graph.tanh %a : tensor<16x16xbf16>
    %v = dist.view %b[0] : tensor<1536xbf16> -> tensor<32x16xbf16>
    %w = dist.view %b[512] : tensor<1536xbf16> -> tensor<32x16xbf16>
    %u = dist.view %b[1024] : tensor<1536xbf16> -> tensor<32x16xbf16>
    %y = graph.matmul %x, %v {transpose_b, graph.fp8 = f8E5M2} : tensor<16x16xbf16>, tensor<32x16xbf16> -> tensor<16x32xbf16>
    %z = graph.matmul %x, %w {transpose_b, graph.fp8 = f8E5M2} : tensor<16x16xbf16>, tensor<32x16xbf16> -> tensor<16x32xbf16>
    %t = graph.matmul %x, %u {transpose_b} : tensor<16x16xbf16>, tensor<32x16xbf16> -> tensor<16x32xbf16>
    %s = graph.swiglu %y, %z : tensor<16x32xbf16>
    %dy = graph.tanh %g : tensor<16x32xbf16>
    %again = dist.view %b[0] : tensor<1536xbf16> -> tensor<32x16xbf16>
    %dx = graph.matmul %dy, %again {graph.fp8 = f8E5M2} : tensor<16x32xbf16>, tensor<32x16xbf16> -> tensor<16x16xbf16>
    return %s, %t, %dx : tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x16xbf16>
  }
}
