// RUN: ztc-opt %s --ztc-overlap-collectives --ztc-order-collectives --ztc-verify-schedule | FileCheck %s
// RUN: ztc-opt %s --ztc-overlap-collectives=prefetch=0 --ztc-order-collectives --ztc-verify-schedule | FileCheck %s --check-prefix=NONE
// RUN: ztc-opt %s --ztc-overlap-collectives=prefetch=2 --ztc-order-collectives --ztc-verify-schedule | FileCheck %s --check-prefix=TWO
dist.bucket @block0 {decayed = 16 : i64, elements = 16 : i64, layer = 0 : i64, trainable, parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4, 4>}]}
dist.bucket @block1 {decayed = 16 : i64, elements = 16 : i64, layer = 1 : i64, trainable, parameters = [{name = "b", offset = 0 : i64, shape = array<i64: 4, 4>}]}
dist.bucket @block1_tail {decayed = 16 : i64, elements = 16 : i64, layer = 1 : i64, trainable, parameters = [{name = "t", offset = 0 : i64, shape = array<i64: 4, 4>}]}
dist.bucket @block2 {decayed = 16 : i64, elements = 16 : i64, layer = 2 : i64, trainable, parameters = [{name = "c", offset = 0 : i64, shape = array<i64: 4, 4>}]}
dist.bucket @block3 {decayed = 512 : i64, elements = 512 : i64, layer = 3 : i64, trainable, parameters = [{name = "f", offset = 0 : i64, shape = array<i64: 4, 128>}]}
dist.bucket @rest {decayed = 8 : i64, elements = 8 : i64, trainable, parameters = [{name = "d", offset = 0 : i64, shape = array<i64: 4, 2>}]}
dist.bucket @head {decayed = 256 : i64, elements = 256 : i64, trainable, parameters = [{name = "e", offset = 0 : i64, shape = array<i64: 4, 64>}]}

// CHECK: module attributes {dist.prefetch = 1 : i64}

// The gather of the next block runs during a block's computation; gradients are reduced during the next one's.
// CHECK-LABEL: func.func @gathers
// CHECK-SAME:    %[[S0:[a-z0-9]+]]: tensor<?xf32, #dist.shard<@block0>>, %[[S1:[a-z0-9]+]]: tensor<?xf32, #dist.shard<@block1>>, %[[S2:[a-z0-9]+]]: tensor<?xf32, #dist.shard<@block2>>
// CHECK-NEXT:    %[[P0:.*]] = dist.all_gather_start %[[S0]] axis "data" {order = 0 : i64}
// CHECK-NEXT:    %[[P1:.*]] = dist.all_gather_start %[[S1]] axis "data" {order = 1 : i64}
// CHECK-NEXT:    %[[F0:.*]] = dist.all_gather_done %[[P0]]
// CHECK-NEXT:    %[[A:.*]] = dist.view %[[F0]][0]
// CHECK-NEXT:    graph.matmul %{{.*}}, %[[A]]
// CHECK-NEXT:    %[[P2:.*]] = dist.all_gather_start %[[S2]] axis "data" {order = 2 : i64}
// CHECK-NEXT:    dist.all_gather_done %[[P1]]
// CHECK-NEXT:    dist.view
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    dist.all_gather_done %[[P2]]
// CHECK-NEXT:    dist.view
// CHECK-NEXT:    graph.matmul
// NONE-LABEL:  func.func @gathers
// NONE:          dist.all_gather_start
// NONE-NEXT:     dist.all_gather_done
// NONE:          graph.matmul
// NONE-NEXT:     dist.all_gather_start
// NONE-NEXT:     dist.all_gather_done
// TWO-LABEL:   func.func @gathers
// TWO-COUNT-3:   dist.all_gather_start
// TWO:           graph.matmul
func.func @gathers(%x: tensor<4x4xf32>, %a: tensor<?xf32, #dist.shard<@block0>>, %b: tensor<?xf32, #dist.shard<@block1>>, %c: tensor<?xf32, #dist.shard<@block2>>) -> tensor<4x4xf32> {
  %fa = dist.all_gather %a axis "data" : tensor<?xf32, #dist.shard<@block0>> -> tensor<?xf32, #dist.full<@block0>>
  %va = dist.view %fa[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<4x4xf32>
  %y = graph.matmul %x, %va : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %fb = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@block1>> -> tensor<?xf32, #dist.full<@block1>>
  %vb = dist.view %fb[0] : tensor<?xf32, #dist.full<@block1>> -> tensor<4x4xf32>
  %z = graph.matmul %y, %vb : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %fc = dist.all_gather %c axis "data" : tensor<?xf32, #dist.shard<@block2>> -> tensor<?xf32, #dist.full<@block2>>
  %vc = dist.view %fc[0] : tensor<?xf32, #dist.full<@block2>> -> tensor<4x4xf32>
  %u = graph.matmul %z, %vc : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %u : tensor<4x4xf32>
}

// A small bucket is not a place: the gather of the head starts at the first use of the block before the last norm.
// CHECK-LABEL: func.func @small_between
// CHECK:         dist.all_gather_start %{{.*}} axis "data" {order = 0 : i64} : tensor<?xf32, #dist.shard<@block0>>
// CHECK-NEXT:    dist.all_gather_start %{{.*}} axis "data" {order = 1 : i64} : tensor<?xf32, #dist.shard<@rest>>
// CHECK-NEXT:    dist.all_gather_start %{{.*}} axis "data" {order = 2 : i64} : tensor<?xf32, #dist.shard<@head>>
// CHECK-NEXT:    dist.all_gather_done
func.func @small_between(%x: tensor<4x4xf32>, %a: tensor<?xf32, #dist.shard<@block0>>, %b: tensor<?xf32, #dist.shard<@rest>>, %c: tensor<?xf32, #dist.shard<@head>>) -> tensor<4x64xf32> {
  %fa = dist.all_gather %a axis "data" : tensor<?xf32, #dist.shard<@block0>> -> tensor<?xf32, #dist.full<@block0>>
  %va = dist.view %fa[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<4x4xf32>
  %y = graph.matmul %x, %va : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %fb = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@rest>> -> tensor<?xf32, #dist.full<@rest>>
  %vb = dist.view %fb[0] : tensor<?xf32, #dist.full<@rest>> -> tensor<4x2xf32>
  %z = graph.matmul %y, %vb : tensor<4x4xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  %fc = dist.all_gather %c axis "data" : tensor<?xf32, #dist.shard<@head>> -> tensor<?xf32, #dist.full<@head>>
  %vc = dist.view %fc[0] : tensor<?xf32, #dist.full<@head>> -> tensor<2x64xf32>
  %u = graph.matmul %z, %vc : tensor<4x2xf32>, tensor<2x64xf32> -> tensor<4x64xf32>
  return %u : tensor<4x64xf32>
}

// A block counts however small beside the next it is (a dense one before one with experts): memory is there for two of them.
// CHECK-LABEL: func.func @small_block
// CHECK:         graph.matmul
// CHECK-NEXT:    dist.all_gather_start %{{.*}} axis "data" {order = 2 : i64} : tensor<?xf32, #dist.shard<@block3>>
func.func @small_block(%x: tensor<4x4xf32>, %a: tensor<?xf32, #dist.shard<@block0>>, %b: tensor<?xf32, #dist.shard<@block1>>, %c: tensor<?xf32, #dist.shard<@block3>>) -> tensor<4x128xf32> {
  %fa = dist.all_gather %a axis "data" : tensor<?xf32, #dist.shard<@block0>> -> tensor<?xf32, #dist.full<@block0>>
  %va = dist.view %fa[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<4x4xf32>
  %y = graph.matmul %x, %va : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %fb = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@block1>> -> tensor<?xf32, #dist.full<@block1>>
  %vb = dist.view %fb[0] : tensor<?xf32, #dist.full<@block1>> -> tensor<4x4xf32>
  %z = graph.matmul %y, %vb : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %fc = dist.all_gather %c axis "data" : tensor<?xf32, #dist.shard<@block3>> -> tensor<?xf32, #dist.full<@block3>>
  %vc = dist.view %fc[0] : tensor<?xf32, #dist.full<@block3>> -> tensor<4x128xf32>
  %u = graph.matmul %z, %vc : tensor<4x4xf32>, tensor<4x128xf32> -> tensor<4x128xf32>
  return %u : tensor<4x128xf32>
}

// Buckets of one block count as one: the next block's gather starts at the first use of the first of them, and their own together.
// CHECK-LABEL: func.func @parts
// CHECK:         dist.all_gather_start %{{.*}} axis "data" {order = 0 : i64} : tensor<?xf32, #dist.shard<@block0>>
// CHECK-NEXT:    dist.all_gather_start %{{.*}} axis "data" {order = 1 : i64} : tensor<?xf32, #dist.shard<@block1>>
// CHECK-NEXT:    dist.all_gather_start %{{.*}} axis "data" {order = 2 : i64} : tensor<?xf32, #dist.shard<@block1_tail>>
// CHECK-NEXT:    dist.all_gather_done
// CHECK:         graph.matmul
// CHECK-NEXT:    dist.all_gather_start %{{.*}} axis "data" {order = 3 : i64} : tensor<?xf32, #dist.shard<@block2>>
// CHECK-NEXT:    dist.all_gather_done
// NONE-LABEL:  func.func @parts
// NONE-COUNT-3:  graph.matmul
// NONE:          dist.all_gather_start %{{.*}} : tensor<?xf32, #dist.shard<@block2>>
func.func @parts(%x: tensor<4x4xf32>, %a: tensor<?xf32, #dist.shard<@block0>>, %b: tensor<?xf32, #dist.shard<@block1>>, %t: tensor<?xf32, #dist.shard<@block1_tail>>, %c: tensor<?xf32, #dist.shard<@block2>>) -> tensor<4x4xf32> {
  %fa = dist.all_gather %a axis "data" : tensor<?xf32, #dist.shard<@block0>> -> tensor<?xf32, #dist.full<@block0>>
  %va = dist.view %fa[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<4x4xf32>
  %y = graph.matmul %x, %va : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %fb = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@block1>> -> tensor<?xf32, #dist.full<@block1>>
  %vb = dist.view %fb[0] : tensor<?xf32, #dist.full<@block1>> -> tensor<4x4xf32>
  %z = graph.matmul %y, %vb : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %ft = dist.all_gather %t axis "data" : tensor<?xf32, #dist.shard<@block1_tail>> -> tensor<?xf32, #dist.full<@block1_tail>>
  %vt = dist.view %ft[0] : tensor<?xf32, #dist.full<@block1_tail>> -> tensor<4x4xf32>
  %s = graph.matmul %z, %vt : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %fc = dist.all_gather %c axis "data" : tensor<?xf32, #dist.shard<@block2>> -> tensor<?xf32, #dist.full<@block2>>
  %vc = dist.view %fc[0] : tensor<?xf32, #dist.full<@block2>> -> tensor<4x4xf32>
  %u = graph.matmul %s, %vc : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %u : tensor<4x4xf32>
}

// A gradient is reduced from its last part on; what keeps the sum stands before the next reduction starts.
// CHECK-LABEL: func.func @gradients
// CHECK:         %[[G0:.*]] = graph.matmul
// CHECK-NEXT:    %[[PACK0:.*]] = dist.pack %[[G0]]
// CHECK-NEXT:    %[[R0:.*]] = dist.reduce_scatter_start %[[PACK0]] axis "data" {order = 0 : i64}
// CHECK-NEXT:    %[[G1:.*]] = graph.matmul
// CHECK-NEXT:    %[[PACK1:.*]] = dist.pack %[[G1]]
// CHECK-NEXT:    %[[SUM0:.*]] = dist.reduce_scatter_done %[[R0]]
// CHECK-NEXT:    graph.fusion "accumulate"(%[[SUM0]])
// CHECK:         graph.accumulate
// CHECK-NEXT:    %[[R1:.*]] = dist.reduce_scatter_start %[[PACK1]] axis "data" {only_last, order = 1 : i64}
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    dist.reduce_scatter_done %[[R1]]
// CHECK-NEXT:    return
func.func @gradients(%x: tensor<4x4xf32>, %g: tensor<?xf32, #dist.shard<@block0>>)
    -> (tensor<4x4xf32>, tensor<?xf32, #dist.shard<@block0>>, tensor<?xf32, #dist.shard<@block1>>) {
  %a = graph.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b = graph.matmul %a, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %y = graph.matmul %b, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %pa = dist.pack %a at [0] : tensor<4x4xf32> -> tensor<?xf32, #dist.full<@block0>>
  %ra = dist.reduce_scatter %pa axis "data" : tensor<?xf32, #dist.full<@block0>> -> tensor<?xf32, #dist.shard<@block0>>
  %k = graph.fusion "accumulate"(%ra) : (tensor<?xf32, #dist.shard<@block0>>) -> tensor<?xf32, #dist.shard<@block0>> {
  ^bb0(%r: tensor<?xf32, #dist.shard<@block0>>):
    graph.yield %r : tensor<?xf32, #dist.shard<@block0>>
  }
  %sum = graph.accumulate %g, %k {first_writes} : tensor<?xf32, #dist.shard<@block0>>
  %pb = dist.pack %b at [0] : tensor<4x4xf32> -> tensor<?xf32, #dist.full<@block1>>
  %rb = dist.reduce_scatter %pb axis "data" {only_last} : tensor<?xf32, #dist.full<@block1>> -> tensor<?xf32, #dist.shard<@block1>>
  return %y, %sum, %rb : tensor<4x4xf32>, tensor<?xf32, #dist.shard<@block0>>, tensor<?xf32, #dist.shard<@block1>>
}

// A small reduction waits for nobody: the head's goes on beside the last norm's, up to the next block's.
// CHECK-LABEL: func.func @small_gradient
// CHECK:         %[[R0:.*]] = dist.reduce_scatter_start %{{.*}} axis "data" {order = 0 : i64} : tensor<?xf32, #dist.full<@head>>
// CHECK:         %[[R1:.*]] = dist.reduce_scatter_start %{{.*}} axis "data" {order = 1 : i64} : tensor<?xf32, #dist.full<@rest>>
// CHECK-NEXT:    graph.matmul
// CHECK-NEXT:    dist.pack
// CHECK-NEXT:    dist.reduce_scatter_done %[[R0]]
// CHECK-NEXT:    dist.reduce_scatter_done %[[R1]]
// CHECK-NEXT:    dist.reduce_scatter_start %{{.*}} axis "data" {order = 2 : i64} : tensor<?xf32, #dist.full<@block0>>
func.func @small_gradient(%x: tensor<4x4xf32>, %e: tensor<4x64xf32>, %d: tensor<4x2xf32>)
    -> (tensor<?xf32, #dist.shard<@head>>, tensor<?xf32, #dist.shard<@rest>>, tensor<?xf32, #dist.shard<@block0>>) {
  %a = graph.matmul %x, %e : tensor<4x4xf32>, tensor<4x64xf32> -> tensor<4x64xf32>
  %b = graph.matmul %x, %d : tensor<4x4xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  %c = graph.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %pa = dist.pack %a at [0] : tensor<4x64xf32> -> tensor<?xf32, #dist.full<@head>>
  %ra = dist.reduce_scatter %pa axis "data" : tensor<?xf32, #dist.full<@head>> -> tensor<?xf32, #dist.shard<@head>>
  %pb = dist.pack %b at [0] : tensor<4x2xf32> -> tensor<?xf32, #dist.full<@rest>>
  %rb = dist.reduce_scatter %pb axis "data" : tensor<?xf32, #dist.full<@rest>> -> tensor<?xf32, #dist.shard<@rest>>
  %pc = dist.pack %c at [0] : tensor<4x4xf32> -> tensor<?xf32, #dist.full<@block0>>
  %rc = dist.reduce_scatter %pc axis "data" : tensor<?xf32, #dist.full<@block0>> -> tensor<?xf32, #dist.shard<@block0>>
  return %ra, %rb, %rc : tensor<?xf32, #dist.shard<@head>>, tensor<?xf32, #dist.shard<@rest>>, tensor<?xf32, #dist.shard<@block0>>
}

// What is computed is gathered as soon as it is there, and awaited by its reader: here nobody before the end.
// CHECK-LABEL: func.func @update
// CHECK:         dist.all_reduce_start
// CHECK-NEXT:    dist.all_reduce_done
// CHECK-NEXT:    %[[A:.*]] = graph.mul
// CHECK-NEXT:    dist.all_gather_start %[[A]]
// CHECK-NEXT:    %[[B:.*]] = graph.mul
// CHECK-NEXT:    dist.all_gather_start %[[B]]
// CHECK-NEXT:    dist.all_gather_done
// CHECK-NEXT:    dist.all_gather_done
// CHECK-NEXT:    return
func.func @update(%n: tensor<f32>, %a: tensor<?xf32, #dist.shard<@block0>>, %b: tensor<?xf32, #dist.shard<@block1>>)
    -> (tensor<f32>, tensor<?xf32, #dist.full<@block0>>, tensor<?xf32, #dist.full<@block1>>) attributes {graph.entry = #graph.entry<update>} {
  %norm = dist.all_reduce %n axis "data" : tensor<f32>
  %x = graph.mul %a, %a : tensor<?xf32, #dist.shard<@block0>>
  %fx = dist.all_gather %x axis "data" : tensor<?xf32, #dist.shard<@block0>> -> tensor<?xf32, #dist.full<@block0>>
  %y = graph.mul %b, %b : tensor<?xf32, #dist.shard<@block1>>
  %fy = dist.all_gather %y axis "data" : tensor<?xf32, #dist.shard<@block1>> -> tensor<?xf32, #dist.full<@block1>>
  return %norm, %fx, %fy : tensor<f32>, tensor<?xf32, #dist.full<@block0>>, tensor<?xf32, #dist.full<@block1>>
}
