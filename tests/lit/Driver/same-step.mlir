// RUN: split-file %s %t
// RUN: ztc-opt --ztc-same=%t/sum.mlir,%t/commuted.mlir | FileCheck %s --check-prefix=SAME
// RUN: not ztc-opt --ztc-same=%t/sum.mlir,%t/difference.mlir 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not ztc-opt --ztc-same=%t/sum.mlir,%t/gone.mlir 2>&1 | FileCheck %s --check-prefix=GONE
// SAME: the same: 1 values
// OTHER: @f: 1 of 1 values differ: result 0
// GONE: @f is not in

//--- sum.mlir
func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %z = graph.add %x, %y : tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}

//--- commuted.mlir
func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %z = graph.add %y, %x : tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}

//--- difference.mlir
func.func @f(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %z = graph.sub %x, %y : tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}

//--- gone.mlir
func.func @g(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  return %x : tensor<2x3xf32>
}
