// RUN: ztc-opt %s | ztc-opt | FileCheck %s

// CHECK: dist.bucket @block0 {decayed = 48 : i64, elements = 52 : i64, layer = 0 : i64
dist.bucket @block0 {decayed = 48 : i64, elements = 52 : i64, layer = 0 : i64, trainable,
  parameters = [{name = "a.weight", offset = 0 : i64, shape = array<i64: 8, 6>}, {name = "n.weight", offset = 48 : i64, shape = array<i64: 4>, tied = ["m.weight"]}]}

// CHECK-LABEL: func.func @views
func.func @views(%bucket: tensor<52xf32>) -> (tensor<52xf32>, tensor<4xf32>) {
  // CHECK: dist.view %{{.*}}[0] : tensor<52xf32> -> tensor<8x6xf32>
  %a = dist.view %bucket[0] : tensor<52xf32> -> tensor<8x6xf32>
  // CHECK: dist.view %{{.*}}[48] : tensor<52xf32> -> tensor<4xf32>
  %n = dist.view %bucket[48] : tensor<52xf32> -> tensor<4xf32>
  // CHECK: dist.pack %{{.*}}, %{{.*}} at [0, 48] : tensor<8x6xf32>, tensor<4xf32> -> tensor<52xf32>
  %b = dist.pack %a, %n at [0, 48] : tensor<8x6xf32>, tensor<4xf32> -> tensor<52xf32>
  // CHECK: dist.own_matrix %{{.*}} of "a.weight" in @block0 : tensor<8x6xf32>
  %o = dist.own_matrix %a of "a.weight" in @block0 : tensor<8x6xf32>
  // CHECK: dist.copy %{{.*}} : tensor<4xf32>
  %c = dist.copy %n : tensor<4xf32>
  return %b, %c : tensor<52xf32>, tensor<4xf32>
}

// The mesh has named axes; how many ranks an axis has is known at run time.
// CHECK: dist.mesh @mesh ["data"]
dist.mesh @mesh ["data"]

// A bucket on the mesh is whole (`full`) or cut into W shards; parameters are views of the whole one.
// CHECK-LABEL: func.func @layouts
func.func @layouts(%shard: tensor<?xf32, #dist.shard<@block0>>, %norm: tensor<f32>) -> (tensor<8x6xf32>, tensor<?xf32, #dist.shard<@block0>>, tensor<f32>) {
  // CHECK: %[[FULL:.*]] = dist.all_gather %{{.*}} axis "data" : tensor<?xf32, #dist.shard<@block0>> -> tensor<?xf32, #dist.full<@block0>>
  %full = dist.all_gather %shard axis "data" : tensor<?xf32, #dist.shard<@block0>> -> tensor<?xf32, #dist.full<@block0>>
  // CHECK: dist.view %[[FULL]][0] : tensor<?xf32, #dist.full<@block0>> -> tensor<8x6xf32>
  %a = dist.view %full[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<8x6xf32>
  // CHECK: %[[PACK:.*]] = dist.pack %{{.*}} at [0] : tensor<8x6xf32> -> tensor<?xf32, #dist.full<@block0>>
  %p = dist.pack %a at [0] : tensor<8x6xf32> -> tensor<?xf32, #dist.full<@block0>>
  // CHECK: dist.reduce_scatter %[[PACK]] axis "data" {only_last} : tensor<?xf32, #dist.full<@block0>> -> tensor<?xf32, #dist.shard<@block0>>
  %r = dist.reduce_scatter %p axis "data" {only_last} : tensor<?xf32, #dist.full<@block0>> -> tensor<?xf32, #dist.shard<@block0>>
  // CHECK: dist.own_shard %[[FULL]] : tensor<?xf32, #dist.full<@block0>> -> tensor<?xf32, #dist.shard<@block0>>
  %own = dist.own_shard %full : tensor<?xf32, #dist.full<@block0>> -> tensor<?xf32, #dist.shard<@block0>>
  // Sums over shards are ordinary ops.
  // CHECK: graph.accumulate %{{.*}}, %{{.*}} {first_writes} : tensor<?xf32, #dist.shard<@block0>>
  %sum = graph.accumulate %own, %r {first_writes} : tensor<?xf32, #dist.shard<@block0>>
  // CHECK: dist.all_reduce %{{.*}} axis "data" : tensor<f32>
  %n = dist.all_reduce %norm axis "data" : tensor<f32>
  // CHECK: dist.all_reduce_max %{{.*}} axis "data" : tensor<3xf32>
  %three = graph.constant dense<[1.0, 0.0, 2.0]> : tensor<3xf32>
  %m = dist.all_reduce_max %three axis "data" : tensor<3xf32>
  return %a, %sum, %n : tensor<8x6xf32>, tensor<?xf32, #dist.shard<@block0>>, tensor<f32>
}

// After the schedule a collective is a start and a done; `order` is the one launch order.
// CHECK-LABEL: func.func @halves
func.func @halves(%shard: tensor<?xf32, #dist.shard<@block0>>, %norm: tensor<f32>) -> (tensor<?xf32, #dist.shard<@block0>>, tensor<f32>) {
  // CHECK: %[[G:.*]] = dist.all_gather_start %{{.*}} axis "data" {order = 0 : i64} : tensor<?xf32, #dist.shard<@block0>> -> !dist.pending<tensor<?xf32, #dist.full<@block0>>>
  %g = dist.all_gather_start %shard axis "data" {order = 0 : i64} : tensor<?xf32, #dist.shard<@block0>> -> !dist.pending<tensor<?xf32, #dist.full<@block0>>>
  // CHECK: %[[S:.*]] = dist.all_reduce_start %{{.*}} axis "data" {order = 1 : i64} : tensor<f32> -> !dist.pending<tensor<f32>>
  %s = dist.all_reduce_start %norm axis "data" {order = 1 : i64} : tensor<f32> -> !dist.pending<tensor<f32>>
  // CHECK: %[[F:.*]] = dist.all_gather_done %[[G]] : !dist.pending<tensor<?xf32, #dist.full<@block0>>>
  %f = dist.all_gather_done %g : !dist.pending<tensor<?xf32, #dist.full<@block0>>>
  // CHECK: %[[R:.*]] = dist.reduce_scatter_start %[[F]] axis "data" {only_last, order = 2 : i64} : tensor<?xf32, #dist.full<@block0>> -> !dist.pending<tensor<?xf32, #dist.shard<@block0>>>
  %r = dist.reduce_scatter_start %f axis "data" {only_last, order = 2 : i64} : tensor<?xf32, #dist.full<@block0>> -> !dist.pending<tensor<?xf32, #dist.shard<@block0>>>
  // CHECK: dist.reduce_scatter_done %[[R]] : !dist.pending<tensor<?xf32, #dist.shard<@block0>>>
  %y = dist.reduce_scatter_done %r : !dist.pending<tensor<?xf32, #dist.shard<@block0>>>
  // CHECK: dist.all_reduce_done %[[S]] : !dist.pending<tensor<f32>>
  %n = dist.all_reduce_done %s : !dist.pending<tensor<f32>>
  return %y, %n : tensor<?xf32, #dist.shard<@block0>>, tensor<f32>
}

// What ranks gather as codes: maxima of what each has, and codes of its shard.
// CHECK-LABEL: func.func @codes
func.func @codes(%a: tensor<?xbf16, #dist.shard<@block0>>) -> (tensor<?xf8E4M3FN, #dist.full<@block0>>, tensor<2xf32>) {
  // CHECK: %[[M:.*]] = dist.shard_amax %{{.*}} ranges [0, 0, 16, 0, 16, 48] : tensor<?xbf16, #dist.shard<@block0>> -> tensor<2xf32>
  %m = dist.shard_amax %a ranges [0, 0, 16, 0, 16, 48] : tensor<?xbf16, #dist.shard<@block0>> -> tensor<2xf32>
  // CHECK: %[[C:.*]], %{{.*}}:2 = dist.shard_codes %{{.*}} amax %[[M]][0] ranges [0, 16, 16, 48] : tensor<?xbf16, #dist.shard<@block0>>, tensor<2xf32> -> tensor<?xf8E4M3FN, #dist.shard<@block0>>, tensor<2xf32>, tensor<2xf32>
  %c, %s:2 = dist.shard_codes %a amax %m[0] ranges [0, 16, 16, 48] : tensor<?xbf16, #dist.shard<@block0>>, tensor<2xf32> -> tensor<?xf8E4M3FN, #dist.shard<@block0>>, tensor<2xf32>, tensor<2xf32>
  // CHECK: dist.all_gather %[[C]] axis "data" : tensor<?xf8E4M3FN, #dist.shard<@block0>> -> tensor<?xf8E4M3FN, #dist.full<@block0>>
  %f = dist.all_gather %c axis "data" : tensor<?xf8E4M3FN, #dist.shard<@block0>> -> tensor<?xf8E4M3FN, #dist.full<@block0>>
  return %f, %s#1 : tensor<?xf8E4M3FN, #dist.full<@block0>>, tensor<2xf32>
}
