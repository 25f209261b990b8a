// RUN: ztc-opt %s --ztc-order-collectives | FileCheck %s

// The order of the text, whatever stood there before; each function counts from 0.
// CHECK-LABEL: func.func @a
// CHECK:         dist.all_reduce_start %{{.*}} {order = 0 : i64}
// CHECK:         dist.all_reduce_start %{{.*}} {order = 1 : i64}
func.func @a(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %p = dist.all_reduce_start %x axis "data" {order = 5 : i64} : tensor<f32> -> !dist.pending<tensor<f32>>
  %q = dist.all_reduce_start %x axis "data" : tensor<f32> -> !dist.pending<tensor<f32>>
  %y = dist.all_reduce_done %p : !dist.pending<tensor<f32>>
  %z = dist.all_reduce_done %q : !dist.pending<tensor<f32>>
  return %y, %z : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @b
// CHECK:         dist.all_reduce_start %{{.*}} {order = 0 : i64}
func.func @b(%x: tensor<f32>) -> tensor<f32> {
  %p = dist.all_reduce_start %x axis "data" : tensor<f32> -> !dist.pending<tensor<f32>>
  %y = dist.all_reduce_done %p : !dist.pending<tensor<f32>>
  return %y : tensor<f32>
}
