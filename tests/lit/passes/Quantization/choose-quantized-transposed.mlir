// RUN: ztc-opt %s --ztc-choose-quantized | FileCheck %s

// A matrix whose rows are inputs, as GPT-2's Conv1D has it.
// CHECK: tensor<8x12xf32> {graph.name = "c_fc.weight", graph.quantized = #graph.weight_format<nf4>, graph.quantized_transposed, graph.role = #graph.role<parameter>}
// CHECK: tensor<8x12xf32> {graph.name = "c_proj.weight", graph.quantized = #graph.weight_format<nf4>, graph.role = #graph.role<parameter>}
func.func @forward(%t: tensor<1x4xi32> {graph.role = #graph.role<tokens>},
                   %e: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "embed.weight"},
                   %c: tensor<8x12xf32> {graph.role = #graph.role<parameter>, graph.name = "c_fc.weight"},
                   %p: tensor<8x12xf32> {graph.role = #graph.role<parameter>, graph.name = "c_proj.weight"},
                   %h: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "lm_head.weight"}) -> (tensor<1x4x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
  %rows = graph.embedding %e, %t : tensor<16x8xf32>, tensor<1x4xi32> -> tensor<1x4x8xf32>
  %flat = graph.reshape %rows : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %y = graph.matmul %flat, %c : tensor<4x8xf32>, tensor<8x12xf32> -> tensor<4x12xf32>
  %z = graph.matmul %y, %p {transpose_b} : tensor<4x12xf32>, tensor<8x12xf32> -> tensor<4x8xf32>
  %l = graph.matmul %z, %h {transpose_b} : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
  %logits = graph.reshape %l : tensor<4x16xf32> -> tensor<1x4x16xf32>
  return %logits : tensor<1x4x16xf32>
}
