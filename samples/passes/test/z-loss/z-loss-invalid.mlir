// RUN: not ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(z-loss)' %s 2>&1 | FileCheck %s

// CHECK: @eval does not return the loss of a head's product
func.func @eval(%x: tensor<f32>) -> tensor<f32> attributes {graph.entry = #graph.entry<eval>} {
  return %x : tensor<f32>
}
