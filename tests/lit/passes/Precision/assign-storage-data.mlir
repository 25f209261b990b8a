// RUN: ztc-opt %s --ztc-assign-storage=precision=bf16 --ztc-verify-precision | FileCheck %s

// Positions counted from the tokens stay f32, whoever reads them: bf16 holds whole numbers up to 256.
// CHECK-LABEL: func.func @eval(
// CHECK:         %[[REAL:.*]] = graph.cast %{{.*}} : tensor<8x1xi32> -> tensor<8x1xf32>
// CHECK:         %[[ALL:.*]] = graph.broadcast %[[REAL]] : tensor<8x1xf32> -> tensor<8x4xf32>
// CHECK-NEXT:    %[[SIN:.*]] = graph.sin %[[ALL]] : tensor<8x4xf32>
// CHECK-NEXT:    %[[COS:.*]] = graph.cos %[[ALL]] : tensor<8x4xf32>
// CHECK-NEXT:    graph.add %[[SIN]], %[[COS]] : tensor<8x4xf32>
func.func @eval(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<8xi32> {graph.role = #graph.role<targets>},
    %w: tensor<5x4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %w, %tokens : tensor<5x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
  %column = graph.reshape %tokens : tensor<8xi32> -> tensor<8x1xi32>
  %real = graph.cast %column : tensor<8x1xi32> -> tensor<8x1xf32>
  %all = graph.broadcast %real : tensor<8x1xf32> -> tensor<8x4xf32>
  %sin = graph.sin %all : tensor<8x4xf32>
  %cos = graph.cos %all : tensor<8x4xf32>
  %waves = graph.add %sin, %cos : tensor<8x4xf32>
  %y = graph.mul %x, %waves : tensor<8x4xf32>
  %loss = graph.linear_cross_entropy %y, %w, %targets : tensor<8x4xf32>, tensor<5x4xf32>, tensor<8xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
