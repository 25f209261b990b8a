// RUN: ztc-opt %s --ztc-duplicate-cheap --ztc-duplicate-broadcasts --ztc-group-primitive-ops --split-input-file | FileCheck %s

// A sigmoid that both kernels multiply by its argument is computed in both.
// CHECK-LABEL: func.func @of_what_each_reads(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x16xf32>, %[[D:[^:]*]]: tensor<8x16xf32>, %[[W:[^:]*]]:
// CHECK:         graph.fusion "sigmoid_mul"(%[[X]])
// CHECK:         graph.fusion "sigmoid_mul_mul"(%[[X]], %[[D]])
// CHECK-NOT:     graph.fusion
func.func @of_what_each_reads(%x: tensor<8x16xf32>, %dy: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %s = graph.sigmoid %x : tensor<8x16xf32>
  %y = graph.mul %x, %s : tensor<8x16xf32>
  %z = graph.matmul %y, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %t = graph.mul %s, %x : tensor<8x16xf32>
  %dx = graph.mul %t, %dy : tensor<8x16xf32>
  return %z, %dx : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// One that a kernel reads without its argument is stored: it would read the argument instead, which nothing keeps for it.
// CHECK-LABEL: func.func @of_what_one_reads(
// CHECK:         %[[S:.*]] = graph.fusion "sigmoid"(%[[X:.*]])
// CHECK:         graph.fusion "mul"(%{{.*}}, %[[S]])
// CHECK:         graph.fusion "mul"(%[[S]], %{{.*}})
func.func @of_what_one_reads(%x: tensor<8x16xf32>, %dy: tensor<8x16xf32>, %w: tensor<16x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %s = graph.sigmoid %x : tensor<8x16xf32>
  %y = graph.mul %x, %s : tensor<8x16xf32>
  %z = graph.matmul %y, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %dx = graph.mul %s, %dy : tensor<8x16xf32>
  return %z, %dx : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// What is made of a number for each row and for each column is not stored.
// CHECK-LABEL: func.func @of_less(
// CHECK-SAME:    %[[A:[^:]*]]: tensor<64x1xf32>, %[[B:[^:]*]]: tensor<1x64xf32>, %[[X:[^:]*]]: tensor<64x64xf32>
// CHECK:         graph.fusion "broadcast_broadcast_sub_exp"(%[[A]], %[[B]], %[[X]])
// CHECK:         graph.mul
// CHECK:         graph.fusion "broadcast_broadcast_sub_exp"(%[[A]], %[[B]], %[[X]])
// CHECK:         graph.add
// CHECK-NOT:     graph.fusion
func.func @of_less(%a: tensor<64x1xf32>, %b: tensor<1x64xf32>, %x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %r = graph.broadcast %a : tensor<64x1xf32> -> tensor<64x64xf32>
  %c = graph.broadcast %b : tensor<1x64xf32> -> tensor<64x64xf32>
  %d = graph.sub %r, %c : tensor<64x64xf32>
  %e = graph.exp %d : tensor<64x64xf32>
  %y = graph.mul %e, %x : tensor<64x64xf32>
  %z = graph.add %e, %x : tensor<64x64xf32>
  return %y, %z : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// A bias on a product that nothing else reads: both kernels read the product and add it.
// CHECK-LABEL: func.func @of_a_product(
// CHECK:         %[[P:.*]] = graph.matmul
// CHECK:         graph.fusion "broadcast_add_exp"(%[[B:[^,]*]], %[[P]])
// CHECK:         graph.fusion "broadcast_add_mul"(%[[B]], %[[P]], %{{.*}})
// CHECK-NOT:     graph.fusion
func.func @of_a_product(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %b: tensor<1x16xf32>, %dy: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %p = graph.matmul %x, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %r = graph.broadcast %b : tensor<1x16xf32> -> tensor<8x16xf32>
  %v = graph.add %r, %p : tensor<8x16xf32>
  %y = graph.exp %v : tensor<8x16xf32>
  %z = graph.mul %v, %dy : tensor<8x16xf32>
  return %y, %z : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// Where something else reads the product, and before them alone, it would be kept beside the sum: the sum is stored.
// CHECK-LABEL: func.func @of_a_product_that_ends_before(
// CHECK:         %[[P:.*]] = graph.matmul
// CHECK:         graph.fusion "log"(%[[P]])
// CHECK:         %[[V:.*]] = graph.fusion "broadcast_add"(%{{.*}}, %[[P]])
// CHECK:         graph.fusion "exp"(%[[V]])
// CHECK:         graph.fusion "mul"(%[[V]], %{{.*}})
func.func @of_a_product_that_ends_before(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %b: tensor<1x16xf32>, %dy: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %p = graph.matmul %x, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %l = graph.log %p : tensor<8x16xf32>
  %r = graph.broadcast %b : tensor<1x16xf32> -> tensor<8x16xf32>
  %v = graph.add %r, %p : tensor<8x16xf32>
  %y = graph.exp %v : tensor<8x16xf32>
  %z = graph.mul %v, %dy : tensor<8x16xf32>
  return %l, %y, %z : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// A gathered parameter is there for its layer alone: what is made of it is stored.
// CHECK-LABEL: func.func @of_what_is_gathered(
// CHECK:         %[[V:.*]] = graph.fusion "broadcast_add"
// CHECK:         graph.fusion "exp"(%[[V]])
// CHECK:         graph.fusion "mul"(%[[V]], %{{.*}})
func.func @of_what_is_gathered(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %shard: tensor<?xf32, #dist.shard<@b>>, %dy: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %p = graph.matmul %x, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
  %full = dist.all_gather %shard axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.full<@b>>
  %b = dist.view %full[0] : tensor<?xf32, #dist.full<@b>> -> tensor<1x16xf32>
  %r = graph.broadcast %b : tensor<1x16xf32> -> tensor<8x16xf32>
  %v = graph.add %r, %p : tensor<8x16xf32>
  %y = graph.exp %v : tensor<8x16xf32>
  %z = graph.mul %v, %dy : tensor<8x16xf32>
  return %y, %z : tensor<8x16xf32>, tensor<8x16xf32>
}
