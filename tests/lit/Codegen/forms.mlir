// RUN: ztc-opt --ztc-plan-kernels %s | FileCheck %s
// Which form a group takes, and the range that its kernels divide among workers.

// CHECK-LABEL: func.func @row
// CHECK: form = row, extent = 6
func.func @row(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %y = graph.fusion "exp"(%x) : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  ^bb0(%a: tensor<2x3x8xf32>):
    %e = graph.exp %a : tensor<2x3x8xf32>
    graph.yield %e : tensor<2x3x8xf32>
  }
  return %y : tensor<2x3x8xf32>
}

// Seven blocks of 8 rows, then the columns in units of 16.
// CHECK-LABEL: func.func @column_reduce
// CHECK: form = column_reduce, extent = 7
// CHECK: form = fold, extent = 3
func.func @column_reduce(%x: tensor<50x48xf32>) -> tensor<1x48xf32> {
  %y = graph.fusion "bias_grad"(%x) : (tensor<50x48xf32>) -> tensor<1x48xf32> {
  ^bb0(%a: tensor<50x48xf32>):
    %s = graph.reduce_sum %a, [0] : tensor<50x48xf32> -> tensor<1x48xf32>
    graph.yield %s : tensor<1x48xf32>
  }
  return %y : tensor<1x48xf32>
}

// CHECK-LABEL: func.func @flat
// CHECK: form = flat, extent = 2
// CHECK-SAME: flat_block = 4096
func.func @flat(%x: tensor<5000xf32>) -> tensor<5000xf32> {
  %y = graph.fusion "neg"(%x) : (tensor<5000xf32>) -> tensor<5000xf32> {
  ^bb0(%a: tensor<5000xf32>):
    %n = graph.neg %a : tensor<5000xf32>
    graph.yield %n : tensor<5000xf32>
  }
  return %y : tensor<5000xf32>
}

// CHECK-LABEL: func.func @scalar
// CHECK: form = scalar, extent = 1
func.func @scalar(%x: tensor<f32>) -> tensor<f32> {
  %y = graph.fusion "sqrt"(%x) : (tensor<f32>) -> tensor<f32> {
  ^bb0(%a: tensor<f32>):
    %n = graph.sqrt %a : tensor<f32>
    graph.yield %n : tensor<f32>
  }
  return %y : tensor<f32>
}
