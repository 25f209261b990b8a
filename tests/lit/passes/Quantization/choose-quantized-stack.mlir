// RUN: ztc-opt "--ztc-choose-quantized=format=mxfp4" %s | FileCheck %s
// RUN: ztc-opt %s --ztc-choose-quantized | FileCheck %s --check-prefix=NF4

// mxfp4 is for stacks of experts too; inputs by outputs are stored transposed. bitsandbytes leaves them as they are.
// CHECK: %{{.*}}: tensor<2x4x6xf32> {graph.name = "experts.up_proj", graph.quantized = #graph.weight_format<mxfp4>, graph.quantized_transposed
// NF4:   %{{.*}}: tensor<2x4x6xf32> {graph.name = "experts.up_proj", graph.role
func.func @forward(%x: tensor<3x4xf32> {graph.role = #graph.role<tokens>},
                   %w: tensor<2x4x6xf32> {graph.role = #graph.role<parameter>, graph.name = "experts.up_proj"},
                   %head: tensor<7x6xf32> {graph.role = #graph.role<parameter>, graph.name = "lm_head.weight"}) -> (tensor<3x7xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<forward>} {
  %one = graph.slice %w, [1, 0, 0] : tensor<2x4x6xf32> -> tensor<1x4x6xf32>
  %matrix = graph.reshape %one : tensor<1x4x6xf32> -> tensor<4x6xf32>
  %y = graph.matmul %x, %matrix : tensor<3x4xf32>, tensor<4x6xf32> -> tensor<3x6xf32>
  %logits = graph.matmul %y, %head {transpose_b} : tensor<3x6xf32>, tensor<7x6xf32> -> tensor<3x7xf32>
  return %logits : tensor<3x7xf32>
}
