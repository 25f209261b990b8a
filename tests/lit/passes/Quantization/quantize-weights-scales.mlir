// RUN: ztc-opt %s --ztc-quantize-weights 2>&1 | FileCheck %s
// RUN: ztc-opt %s --ztc-quantize-weights=own-scales=true 2>&1 | FileCheck %s --check-prefix=OWN

// Rows of a multiple of 16 and not of 64: bitsandbytes' code for AVX-512 takes the scales of other blocks. Which it is to be is said.
// CHECK: warning: 1 weights in nf4 have rows that are multiples of 16 and not of 64
// CHECK: graph.dequantize %{{.*}} format <nf4> : tensor<1188xi8> -> tensor<8x16xf32>
// OWN-NOT: warning
// OWN: %[[ROW:.*]] = graph.dequantize %{{.*}} format <nf4> : tensor<1188xi8> -> tensor<1x128xf32>
// OWN: %[[W:.*]] = graph.reshape %[[ROW]] : tensor<1x128xf32> -> tensor<8x16xf32>
// OWN: graph.matmul %{{.*}}, %[[W]] {transpose_b}
func.func @microstep(%x: tensor<4x16xf32> {graph.role = #graph.role<tokens>},
                     %w: tensor<8x16xf32> {graph.role = #graph.role<parameter>, graph.name = "w.weight", graph.frozen, graph.quantized = #graph.weight_format<nf4>}) -> tensor<4x8xf32> attributes {graph.entry = #graph.entry<microstep>} {
  %y = graph.matmul %x, %w {transpose_b} : tensor<4x16xf32>, tensor<8x16xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
