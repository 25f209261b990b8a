// RUN: ztc-opt --load-pass-plugin=%plugin --ztc-mark-recomputed=level=alternate %s | FileCheck %s
// RUN: not ztc-opt --ztc-mark-recomputed=level=alternate %s 2>&1 | FileCheck %s --check-prefix=WITHOUT

// WITHOUT: there is no level 'alternate'

// A parameter says by graph.layer which block it is of, and with it what reads it. Of block 0 what backward reads is computed again, of block 1 it is kept; of
// the last block `layer` takes nothing either.
// CHECK-LABEL: func.func @microstep
// CHECK:         graph.mul %{{.*}}, %{{.*}} {graph.recomputed}
// CHECK:         graph.exp {{.*}} {graph.recomputed}
// CHECK-NOT:     graph.recomputed
func.func @microstep(%x: tensor<4x8xf32>,
    %w0: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "layers.0.w", graph.layer = 0 : i64},
    %w1: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "layers.1.w", graph.layer = 1 : i64},
    %w2: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "layers.2.w", graph.layer = 2 : i64},
    %head: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "head"}, %targets: tensor<4xi32>, %scale: tensor<f32>)
    -> (tensor<f32>, tensor<4x8xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %p = graph.mul %x, %w0 : tensor<4x8xf32>
  %a = graph.exp %p : tensor<4x8xf32>
  %b = graph.add %x, %a : tensor<4x8xf32>
  %q = graph.mul %b, %w1 : tensor<4x8xf32>
  %c = graph.exp %q : tensor<4x8xf32>
  %d = graph.add %b, %c : tensor<4x8xf32>
  %r = graph.mul %d, %w2 : tensor<4x8xf32>
  %e = graph.exp %r : tensor<4x8xf32>
  %f = graph.add %d, %e : tensor<4x8xf32>
  %loss, %df = graph.linear_cross_entropy %f, %head, %targets scale %scale : tensor<f32>
      : tensor<4x8xf32>, tensor<16x8xf32>, tensor<4xi32> -> tensor<f32>, tensor<4x8xf32>
  %de = graph.mul %df, %e : tensor<4x8xf32>
  %dc = graph.mul %de, %c : tensor<4x8xf32>
  %da = graph.mul %dc, %a : tensor<4x8xf32>
  return %loss, %da : tensor<f32>, tensor<4x8xf32>
}
