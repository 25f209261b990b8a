// RUN: ztc-opt --load-pass-plugin=%plugin --ztc-mark-recomputed=level=alternate %s | FileCheck %s
// RUN: not ztc-opt --ztc-mark-recomputed=level=alternate %s 2>&1 | FileCheck %s --check-prefix=WITHOUT

// WITHOUT: there is no level 'alternate'

// Of block 0 what backward reads is computed again, of block 1 it is kept; of the last block `layer` takes nothing either.
// CHECK-LABEL: func.func @microstep
// CHECK:         graph.exp {{.*}} {graph.recomputed}
// CHECK-NOT:     graph.recomputed
func.func @microstep(%x: tensor<4x8xf32>, %head: tensor<16x8xf32>, %targets: tensor<4xi32>, %scale: tensor<f32>) -> (tensor<f32>, tensor<4x8xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %a = graph.exp %x : tensor<4x8xf32> loc("model.layers.0.mlp")
  %b = graph.add %x, %a : tensor<4x8xf32> loc("model.layers.0.mlp")
  %c = graph.exp %b : tensor<4x8xf32> loc("model.layers.1.mlp")
  %d = graph.add %b, %c : tensor<4x8xf32> loc("model.layers.1.mlp")
  %e = graph.exp %d : tensor<4x8xf32> loc("model.layers.2.mlp")
  %f = graph.add %d, %e : tensor<4x8xf32> loc("model.layers.2.mlp")
  %loss, %df = graph.linear_cross_entropy %f, %head, %targets scale %scale : tensor<f32>
      : tensor<4x8xf32>, tensor<16x8xf32>, tensor<4xi32> -> tensor<f32>, tensor<4x8xf32>
  %de = graph.mul %df, %e : tensor<4x8xf32> loc("model.layers.2.mlp")
  %dc = graph.mul %de, %c : tensor<4x8xf32> loc("model.layers.1.mlp")
  %da = graph.mul %dc, %a : tensor<4x8xf32> loc("model.layers.0.mlp")
  return %loss, %da : tensor<f32>, tensor<4x8xf32>
}
