// RUN: ztc-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin --pass-pipeline='builtin.module(gate-silu)' %s -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: ztc-opt --load-pass-plugin=%plugin --ztc-same=%s,%t.mlir | FileCheck %s --check-prefix=SAME
// RUN: ztc-opt --load-dialect-plugin=%plugin --load-pass-plugin=%plugin --ztc-group-macro-ops %t.mlir | FileCheck %s --check-prefix=KERNEL

// SAME: the same: 1 values

// What becomes its kernel.
// KERNEL:      graph.fusion "gated_silu"
// KERNEL:        graph.sigmoid
// KERNEL-NEXT:   graph.mul
// KERNEL-NEXT:   graph.mul

// CHECK-LABEL: func.func @f
// CHECK:         sample.gated_silu %{{.*}}, %{{.*}} : tensor<2x3xf32>
func.func @f(%gate: tensor<2x3xf32>, %up: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = graph.swiglu %gate, %up : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
