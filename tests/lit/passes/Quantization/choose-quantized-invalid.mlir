// RUN: not ztc-opt %s --ztc-choose-quantized=format=fp4 2>&1 | FileCheck %s

// CHECK: for the --format option: Cannot find option named 'fp4'!
func.func @forward(%t: tensor<1x4xi32> {graph.role = #graph.role<tokens>}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
