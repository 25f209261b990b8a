// RUN: ztc-opt %s --ztc-quantize-weights | FileCheck %s

// Each reader makes the numbers for itself, right in front of it, also where the graph joins two weights. What is trained stays as it is.
// CHECK-LABEL: func.func @microstep
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xbf16>
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<1156xi8> {graph.frozen, graph.name = "q.weight", graph.quantized = #graph.weight_format<nf4>, graph.role = #graph.role<parameter>, graph.source = {format = "nf4", path = "m.safetensors", quantized_shape = array<i64: 8, 8>}}
// CHECK-SAME: %[[K:[a-z0-9]+]]: tensor<1140xi8>
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2x8xbf16>
// CHECK: %[[NQ:.*]] = graph.dequantize %[[Q]] format <nf4> : tensor<1156xi8> -> tensor<8x8xbf16>
// CHECK: %[[NK:.*]] = graph.dequantize %[[K]] format <nf4> : tensor<1140xi8> -> tensor<4x8xbf16>
// CHECK: %[[W:.*]] = graph.concat %[[NQ]], %[[NK]]
// CHECK: %[[Y:.*]] = graph.matmul %[[X]], %[[W]] {transpose_b}
// CHECK: %[[H:.*]] = graph.matmul %[[X]], %[[A]] {transpose_b}
// CHECK: %[[NQ2:.*]] = graph.dequantize %[[Q]]
// CHECK: %[[NK2:.*]] = graph.dequantize %[[K]]
// CHECK: %[[W2:.*]] = graph.concat %[[NQ2]], %[[NK2]]
// CHECK: graph.matmul %[[Y]], %[[W2]]
func.func @microstep(%x: tensor<4x8xbf16> {graph.role = #graph.role<tokens>},
                     %q: tensor<8x8xbf16> {graph.role = #graph.role<parameter>, graph.name = "q.weight", graph.frozen, graph.quantized = #graph.weight_format<nf4>, graph.source = {path = "m.safetensors"}},
                     %k: tensor<4x8xbf16> {graph.role = #graph.role<parameter>, graph.name = "k.weight", graph.frozen, graph.quantized = #graph.weight_format<nf4>},
                     %a: tensor<2x8xbf16> {graph.role = #graph.role<parameter>, graph.name = "a.weight", graph.quantized = #graph.weight_format<nf4>}) -> (tensor<4x2xbf16>, tensor<4x8xbf16>) attributes {graph.entry = #graph.entry<microstep>} {
  %w = graph.concat %q, %k axis 0 : tensor<8x8xbf16>, tensor<4x8xbf16> -> tensor<12x8xbf16>
  %y = graph.matmul %x, %w {transpose_b} : tensor<4x8xbf16>, tensor<12x8xbf16> -> tensor<4x12xbf16>
  %h = graph.matmul %x, %a {transpose_b} : tensor<4x8xbf16>, tensor<2x8xbf16> -> tensor<4x2xbf16>
  %d = graph.matmul %y, %w : tensor<4x12xbf16>, tensor<12x8xbf16> -> tensor<4x8xbf16>
  return %h, %d : tensor<4x2xbf16>, tensor<4x8xbf16>
}
