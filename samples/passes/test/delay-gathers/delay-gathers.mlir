// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(ztc-overlap-collectives,ztc-order-collectives,delay-gathers,ztc-verify-schedule)' %s | FileCheck %s
dist.bucket @block0 {decayed = 16 : i64, elements = 16 : i64, layer = 0 : i64, trainable, parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4, 4>}]}
dist.bucket @block1 {decayed = 16 : i64, elements = 16 : i64, layer = 1 : i64, trainable, parameters = [{name = "b", offset = 0 : i64, shape = array<i64: 4, 4>}]}

// CHECK-LABEL: func.func @gathers
// CHECK:         dist.all_gather_start %{{.*}} axis "data" {order = 0 : i64}
// CHECK-NEXT:    dist.all_gather_done
// CHECK:         graph.matmul
// CHECK-NEXT:    dist.all_gather_start %{{.*}} axis "data" {order = 1 : i64}
// CHECK-NEXT:    dist.all_gather_done
func.func @gathers(%x: tensor<4x4xf32>, %a: tensor<?xf32, #dist.shard<@block0>>, %b: tensor<?xf32, #dist.shard<@block1>>) -> tensor<4x4xf32> {
  %fa = dist.all_gather %a axis "data" : tensor<?xf32, #dist.shard<@block0>> -> tensor<?xf32, #dist.full<@block0>>
  %va = dist.view %fa[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<4x4xf32>
  %y = graph.matmul %x, %va : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %fb = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@block1>> -> tensor<?xf32, #dist.full<@block1>>
  %vb = dist.view %fb[0] : tensor<?xf32, #dist.full<@block1>> -> tensor<4x4xf32>
  %z = graph.matmul %y, %vb : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %z : tensor<4x4xf32>
}
