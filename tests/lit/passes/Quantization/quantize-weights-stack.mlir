// RUN: ztc-opt %s --ztc-quantize-weights | FileCheck %s

// A stack of experts is the bytes of its matrices, one below the other: here of the transposed ones, which the products of the experts' rows then read. What reads one expert
// alone gets it out of the numbers of all.
// CHECK-LABEL: func.func @microstep
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<6x64xbf16> {{.*}}, %[[STARTS:[a-z0-9]+]]: tensor<3xi32>
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<416xi8> {graph.frozen, graph.name = "down_proj", graph.quantized = #graph.weight_format<mxfp4>, graph.quantized_transposed, graph.role = #graph.role<parameter>, graph.source = {format = "mxfp4", quantized_shape = array<i64: 2, 64, 5>, quantized_transposed}}
// CHECK: %[[N:.*]] = graph.dequantize %[[W]] format <mxfp4> : tensor<416xi8> -> tensor<10x64xbf16>
// CHECK: %[[S:.*]] = graph.reshape %[[N]] : tensor<10x64xbf16> -> tensor<2x5x64xbf16>
// CHECK: %[[Y:.*]] = graph.grouped_matmul %[[X]], %[[S]] rows %[[STARTS]] {transpose_b}
// CHECK: %[[N2:.*]] = graph.dequantize %[[W]]
// CHECK: %[[S2:.*]] = graph.reshape %[[N2]]
// CHECK: graph.grouped_matmul %[[Y]], %[[S2]] rows %[[STARTS]] : tensor<6x5xbf16>
// CHECK: %[[N3:.*]] = graph.dequantize %[[W]]
// CHECK: %[[S3:.*]] = graph.reshape %[[N3]]
// CHECK: %[[T:.*]] = graph.transpose %[[S3]], [0, 2, 1]
// CHECK: graph.slice %[[T]]
func.func @microstep(%x: tensor<6x64xbf16> {graph.role = #graph.role<tokens>}, %starts: tensor<3xi32>,
                     %w: tensor<2x64x5xbf16> {graph.role = #graph.role<parameter>, graph.name = "down_proj", graph.frozen, graph.quantized = #graph.weight_format<mxfp4>, graph.quantized_transposed}) -> (tensor<6x64xbf16>, tensor<6x5xbf16>) attributes {graph.entry = #graph.entry<microstep>} {
  %y = graph.grouped_matmul %x, %w rows %starts : tensor<6x64xbf16>, tensor<2x64x5xbf16>, tensor<3xi32> -> tensor<6x5xbf16>
  %d = graph.grouped_matmul %y, %w rows %starts {transpose_b} : tensor<6x5xbf16>, tensor<2x64x5xbf16>, tensor<3xi32> -> tensor<6x64xbf16>
  %one = graph.slice %w, [1, 0, 0] : tensor<2x64x5xbf16> -> tensor<1x64x5xbf16>
  %matrix = graph.reshape %one : tensor<1x64x5xbf16> -> tensor<64x5xbf16>
  %z = graph.matmul %x, %matrix : tensor<6x64xbf16>, tensor<64x5xbf16> -> tensor<6x5xbf16>
  return %d, %z : tensor<6x64xbf16>, tensor<6x5xbf16>
}
