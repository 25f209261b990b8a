// RUN: not ztc-opt %s --ztc-choose-quantized=format=fp4 2>&1 | FileCheck %s

// CHECK: error: there is no format 'fp4' of weights, only nf4 and int8
func.func @forward(%t: tensor<1x4xi32> {graph.role = #graph.role<tokens>}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
