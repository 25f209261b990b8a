// RUN: ztc-opt %s --ztc-quantize-weights --split-input-file | FileCheck %s

// A matrix whose rows are inputs (GPT-2's Conv1D) is stored as bitsandbytes stores it: as (outputs, inputs). Products read that, other readers its transpose.
// CHECK-LABEL: func.func @microstep
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8xf32>
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<1140xi8>
// CHECK-SAME: graph.source = {format = "nf4", path = "m.safetensors", quantized_shape = array<i64: 8, 4>, quantized_transposed}
// CHECK: %[[N:.*]] = graph.dequantize %[[W]] format <nf4> : tensor<1140xi8> -> tensor<4x8xf32>
// CHECK: %[[Y:.*]] = graph.matmul %[[X]], %[[N]] {transpose_b} : tensor<2x8xf32>, tensor<4x8xf32> -> tensor<2x4xf32>
// CHECK: %[[N2:.*]] = graph.dequantize %[[W]] format <nf4> : tensor<1140xi8> -> tensor<4x8xf32>
// CHECK: graph.matmul %[[Y]], %[[N2]] : tensor<2x4xf32>, tensor<4x8xf32> -> tensor<2x8xf32>
// CHECK: %[[N3:.*]] = graph.dequantize %[[W]] format <nf4> : tensor<1140xi8> -> tensor<4x8xf32>
// CHECK: %[[T:.*]] = graph.transpose %[[N3]], [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
// CHECK: graph.mul %[[T]], %[[T]]
func.func @microstep(%x: tensor<2x8xf32> {graph.role = #graph.role<tokens>},
                     %w: tensor<8x4xf32> {graph.role = #graph.role<parameter>, graph.name = "w.weight", graph.frozen, graph.quantized = #graph.weight_format<nf4>, graph.quantized_transposed, graph.source = {path = "m.safetensors"}}) -> (tensor<2x8xf32>, tensor<8x4xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %y = graph.matmul %x, %w : tensor<2x8xf32>, tensor<8x4xf32> -> tensor<2x4xf32>
  %d = graph.matmul %y, %w {transpose_b} : tensor<2x4xf32>, tensor<8x4xf32> -> tensor<2x8xf32>
  %s = graph.mul %w, %w : tensor<8x4xf32>
  return %d, %s : tensor<2x8xf32>, tensor<8x4xf32>
}

// -----

// Products that add their bias, or a residual and a bias, read it too.
// CHECK-LABEL: func.func @microstep
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x8xbf16>
// CHECK: %[[N:.*]] = graph.dequantize %{{.*}} format <nf4> : tensor<1140xi8> -> tensor<4x8xbf16>
// CHECK: graph.matmul_bias %[[X]], %[[N]], %{{.*}} {transpose_b} : tensor<2x8xbf16>, tensor<4x8xbf16>, tensor<4xbf16> -> tensor<2x4xbf16>
// CHECK: graph.matmul_add %[[X]], %{{.*}}, %{{.*}} bias %{{.*}} : tensor<4xbf16> {transpose_b} : tensor<2x8xbf16>, tensor<4x8xbf16>, tensor<2x4xbf16>
func.func @microstep(%x: tensor<2x8xbf16> {graph.role = #graph.role<tokens>},
                     %w: tensor<8x4xbf16> {graph.role = #graph.role<parameter>, graph.name = "w.weight", graph.frozen, graph.quantized = #graph.weight_format<nf4>, graph.quantized_transposed, graph.source = {path = "m.safetensors"}},
                     %v: tensor<4xbf16>, %r: tensor<2x4xbf16>) -> (tensor<2x4xbf16>, tensor<2x4xbf16>) attributes {graph.entry = #graph.entry<microstep>} {
  %y = graph.matmul_bias %x, %w, %v : tensor<2x8xbf16>, tensor<8x4xbf16>, tensor<4xbf16> -> tensor<2x4xbf16>
  %z = graph.matmul_add %x, %w, %r bias %v : tensor<4xbf16> : tensor<2x8xbf16>, tensor<8x4xbf16>, tensor<2x4xbf16>
  return %y, %z : tensor<2x4xbf16>, tensor<2x4xbf16>
}
