// RUN: ztc-opt %s --split-input-file --ztc-choose-quantized | FileCheck %s
// RUN: ztc-opt %s --split-input-file --ztc-choose-quantized=format=int8 | FileCheck %s --check-prefix=INT8
// RUN: ztc-opt %s --split-input-file --ztc-choose-quantized=format=nf4_single | FileCheck %s --check-prefix=SINGLE

// Second factors of products, also joined with others; neither the head, nor a table, nor a vector, nor a table of positions that is added.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: tensor<16x8xf32> {graph.name = "embed.weight", graph.role = #graph.role<parameter>}
// CHECK-SAME: tensor<4x8xf32> {graph.name = "positions.weight", graph.role = #graph.role<parameter>}
// CHECK-SAME: tensor<8x8xf32> {graph.name = "q.weight", graph.quantized = #graph.weight_format<nf4>, graph.role = #graph.role<parameter>}
// CHECK-SAME: tensor<4x8xf32> {graph.name = "k.weight", graph.quantized = #graph.weight_format<nf4>, graph.role = #graph.role<parameter>}
// CHECK-SAME: tensor<8xf32> {graph.name = "norm.weight", graph.role = #graph.role<parameter>}
// CHECK-SAME: tensor<16x12xf32> {graph.name = "lm_head.weight", graph.role = #graph.role<parameter>}
// INT8: graph.name = "q.weight", graph.quantized = #graph.weight_format<int8>
// SINGLE: graph.name = "q.weight", graph.quantized = #graph.weight_format<nf4_single>
func.func @forward(%t: tensor<1x4xi32> {graph.role = #graph.role<tokens>},
                   %e: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "embed.weight"},
                   %p: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "positions.weight"},
                   %q: tensor<8x8xf32> {graph.role = #graph.role<parameter>, graph.name = "q.weight"},
                   %k: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "k.weight"},
                   %n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "norm.weight"},
                   %h: tensor<16x12xf32> {graph.role = #graph.role<parameter>, graph.name = "lm_head.weight"}) -> (tensor<1x4x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
  %rows = graph.embedding %e, %t : tensor<16x8xf32>, tensor<1x4xi32> -> tensor<1x4x8xf32>
  %flat = graph.reshape %rows : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %x = graph.add %flat, %p : tensor<4x8xf32>
  %b = graph.broadcast %n : tensor<8xf32> -> tensor<4x8xf32>
  %s = graph.mul %x, %b : tensor<4x8xf32>
  %w = graph.concat %q, %k axis 0 : tensor<8x8xf32>, tensor<4x8xf32> -> tensor<12x8xf32>
  %y = graph.matmul %s, %w {transpose_b} : tensor<4x8xf32>, tensor<12x8xf32> -> tensor<4x12xf32>
  %l = graph.matmul %y, %h {transpose_b} : tensor<4x12xf32>, tensor<16x12xf32> -> tensor<4x16xf32>
  %logits = graph.reshape %l : tensor<4x16xf32> -> tensor<1x4x16xf32>
  return %logits : tensor<1x4x16xf32>
}
