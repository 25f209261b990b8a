// RUN: ztc-opt %s --ztc-update-in-backward --ztc-order-steps --ztc-overlap-collectives --ztc-place-updates --ztc-order-collectives --ztc-verify-schedule | FileCheck %s
module attributes {dist.zero = 2 : i64, graph.update_in_backward} {
dist.bucket @block0 {decayed = 16 : i64, elements = 16 : i64, layer = 0 : i64, trainable, parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4, 4>}]}
dist.bucket @block1 {decayed = 16 : i64, elements = 16 : i64, layer = 1 : i64, trainable, parameters = [{name = "b", offset = 0 : i64, shape = array<i64: 4, 4>}]}
dist.mesh @mesh ["data"]

// The update of block 1 stands after the product that reads its matrix, before block 0's gradient is computed.
// CHECK-LABEL: func.func @microstep
// CHECK:         %[[DY:.*]] = graph.matmul %{{.*}}, %{{.*}} {transpose_b} : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
// CHECK:         dist.reduce_scatter_done {{.*}}@block1
// CHECK:         graph.sum_squares %{{.*}} : tensor<?xf32, #dist.shard<@block1>>
// CHECK:         graph.mul %{{.*}} : tensor<?xf32, #dist.shard<@block1>>
// CHECK:         dist.all_gather_start {{.*}}@block1
// CHECK:         graph.matmul %{{.*}}, %[[DY]] {transpose_a}
// CHECK:         dist.reduce_scatter_done {{.*}}@block0
// CHECK:         graph.mul %{{.*}} : tensor<?xf32, #dist.shard<@block0>>
// CHECK:         dist.all_gather_done
// CHECK:         dist.all_gather_done
// CHECK-NEXT:    return
func.func @microstep(%step: tensor<20xf32> {graph.role = #graph.role<step>}, %x: tensor<2x4xf32> {graph.role = #graph.role<tokens>},
    %a: tensor<?xf32, #dist.full<@block0>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @block0},
    %b: tensor<?xf32, #dist.full<@block1>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @block1},
    %ga: tensor<?xf32, #dist.shard<@block0>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @block0},
    %gb: tensor<?xf32, #dist.shard<@block1>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @block1})
    -> (tensor<2x4xf32> {graph.result = #graph.result<loss>},
        tensor<?xf32, #dist.shard<@block0>> {graph.result = #graph.result<gradient>, graph.bucket = @block0},
        tensor<?xf32, #dist.shard<@block1>> {graph.result = #graph.result<gradient>, graph.bucket = @block1})
    attributes {graph.entry = #graph.entry<microstep>} {
  %wa = dist.view %a[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<4x4xf32>
  %y = graph.matmul %x, %wa : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %wb = dist.view %b[0] : tensor<?xf32, #dist.full<@block1>> -> tensor<4x4xf32>
  %z = graph.matmul %y, %wb : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %db = graph.matmul %y, %z {transpose_a} : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<4x4xf32>
  %pb = dist.pack %db at [0] : tensor<4x4xf32> -> tensor<?xf32, #dist.full<@block1>>
  %rb = dist.reduce_scatter %pb axis "data" : tensor<?xf32, #dist.full<@block1>> -> tensor<?xf32, #dist.shard<@block1>>
  %sb = graph.accumulate %gb, %rb {first_writes} : tensor<?xf32, #dist.shard<@block1>>
  %dy = graph.matmul %z, %wb {transpose_b} : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %da = graph.matmul %x, %dy {transpose_a} : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<4x4xf32>
  %pa = dist.pack %da at [0] : tensor<4x4xf32> -> tensor<?xf32, #dist.full<@block0>>
  %ra = dist.reduce_scatter %pa axis "data" : tensor<?xf32, #dist.full<@block0>> -> tensor<?xf32, #dist.shard<@block0>>
  %sa = graph.accumulate %ga, %ra {first_writes} : tensor<?xf32, #dist.shard<@block0>>
  return %z, %sa, %sb : tensor<2x4xf32>, tensor<?xf32, #dist.shard<@block0>>, tensor<?xf32, #dist.shard<@block1>>
}
func.func @update(%step: tensor<20xf32> {graph.role = #graph.role<step>},
    %a: tensor<?xf32, #dist.full<@block0>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @block0},
    %b: tensor<?xf32, #dist.full<@block1>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @block1},
    %ga: tensor<?xf32, #dist.shard<@block0>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @block0},
    %gb: tensor<?xf32, #dist.shard<@block1>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @block1},
    %ma: tensor<?xf32, #dist.shard<@block0>> {graph.role = #graph.role<state_bucket>, graph.bucket = @block0, graph.state = "momentum_buffer"},
    %mb: tensor<?xf32, #dist.shard<@block1>> {graph.role = #graph.role<state_bucket>, graph.bucket = @block1, graph.state = "momentum_buffer"})
    -> (tensor<?xf32, #dist.full<@block0>> {graph.result = #graph.result<parameter>, graph.bucket = @block0},
        tensor<?xf32, #dist.full<@block1>> {graph.result = #graph.result<parameter>, graph.bucket = @block1},
        tensor<?xf32, #dist.shard<@block0>> {graph.result = #graph.result<state>, graph.bucket = @block0, graph.state = "momentum_buffer"},
        tensor<?xf32, #dist.shard<@block1>> {graph.result = #graph.result<state>, graph.bucket = @block1, graph.state = "momentum_buffer"},
        tensor<f32> {graph.result = #graph.result<gradient_norm>})
    attributes {graph.entry = #graph.entry<update>} {
  %qa = graph.sum_squares %ga : tensor<?xf32, #dist.shard<@block0>> -> tensor<f32>
  %na = dist.all_reduce %qa axis "data" : tensor<f32>
  %oa = dist.own_shard %a : tensor<?xf32, #dist.full<@block0>> -> tensor<?xf32, #dist.shard<@block0>>
  %ua = graph.add %ma, %ga : tensor<?xf32, #dist.shard<@block0>>
  %va = graph.mul %oa, %ua : tensor<?xf32, #dist.shard<@block0>>
  %fa = dist.all_gather %va axis "data" : tensor<?xf32, #dist.shard<@block0>> -> tensor<?xf32, #dist.full<@block0>>
  %qb = graph.sum_squares %gb : tensor<?xf32, #dist.shard<@block1>> -> tensor<f32>
  %nb = dist.all_reduce %qb axis "data" : tensor<f32>
  %ob = dist.own_shard %b : tensor<?xf32, #dist.full<@block1>> -> tensor<?xf32, #dist.shard<@block1>>
  %ub = graph.add %mb, %gb : tensor<?xf32, #dist.shard<@block1>>
  %vb = graph.mul %ob, %ub : tensor<?xf32, #dist.shard<@block1>>
  %fb = dist.all_gather %vb axis "data" : tensor<?xf32, #dist.shard<@block1>> -> tensor<?xf32, #dist.full<@block1>>
  %n = graph.add %na, %nb : tensor<f32>
  return %fa, %fb, %ua, %ub, %n : tensor<?xf32, #dist.full<@block0>>, tensor<?xf32, #dist.full<@block1>>, tensor<?xf32, #dist.shard<@block0>>, tensor<?xf32, #dist.shard<@block1>>, tensor<f32>
}
}
