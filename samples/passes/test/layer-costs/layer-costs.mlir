// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(layer-costs)' %s -o /dev/null | FileCheck %s

// A product of 4 x 8 by 8 x 16 numbers is 2 * 4 * 8 * 16 operations; a sum is one for each number that it makes. Both read
// their operands once and write their result.
// CHECK:      @step
// CHECK-NEXT:   outside {{ *}}64 FLOPs {{ *}}768 bytes
// CHECK-NEXT:   layer 0 {{ *}}1024 FLOPs {{ *}}896 bytes
// CHECK-NEXT:   layer 3 {{ *}}128 FLOPs {{ *}}1536 bytes
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %y: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %p = graph.matmul %x, %w : tensor<4x8xf32>, tensor<8x16xf32> -> tensor<4x16xf32> loc("model.layers.0.mlp.up_proj")
  %a = graph.add %p, %y : tensor<4x16xf32> loc("model.layers.3.add")
  %b = graph.add %a, %y : tensor<4x16xf32> loc("model.layers.3.add")
  %c = graph.add %b, %y : tensor<4x16xf32> loc("model.norm")
  return %c : tensor<4x16xf32>
}
