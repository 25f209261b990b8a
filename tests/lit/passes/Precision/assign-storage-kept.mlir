// Layers that the policy keeps: by the name of a parameter, by the module path of an op.
// RUN: ztc-opt %s --ztc-assign-storage="precision=fp16 keep=^n\$,layers.0.mlp" --ztc-verify-precision -mlir-print-debuginfo | FileCheck %s

// CHECK:       graph.kept_fp32 = ["^n$", "layers.0.mlp"], graph.precision = "fp16"
// CHECK-SAME:  }
// CHECK:       %[[X:.*]] = graph.embedding %{{.*}} -> tensor<6x4xf16>
// CHECK:       %[[WIDE:.*]] = graph.cast %[[X]] : tensor<6x4xf16> -> tensor<6x4xf32>
// CHECK:       %[[N:.*]] = graph.rms_norm %[[WIDE]], %{{.*}} : tensor<6x4xf32>, tensor<4xf32>
// CHECK:       graph.swiglu %[[N]], %{{.*}} : tensor<6x4xf32>
// CHECK:       graph.cast %{{.*}} : tensor<6x4xf32> -> tensor<6x4xf16>
// CHECK:       graph.add %{{.*}} : tensor<6x4xf16>
func.func @eval(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e"},
                %n: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "n"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %y = graph.rms_norm %x, %n, 1.0e-5 : tensor<6x4xf32>, tensor<4xf32>
  %s = graph.swiglu %y, %x : tensor<6x4xf32> loc("model.layers.0.mlp")
  %z = graph.add %x, %s : tensor<6x4xf32>
  %loss = graph.linear_cross_entropy %z, %e, %tokens : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
