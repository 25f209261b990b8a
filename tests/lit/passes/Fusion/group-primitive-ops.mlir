// RUN: ztc-opt %s --ztc-group-primitive-ops --ztc-verify-fuse -split-input-file | FileCheck %s

// A chain is one group, with its constants; a producer with another reader stays apart.
// CHECK-LABEL: func.func @chain
// CHECK:         %[[E:.*]] = graph.fusion "exp"
// CHECK:         graph.fusion "mul_add"(%{{.*}}, %[[E]]) is chain
// CHECK:           graph.constant dense<2.000000e+00>
// CHECK:           graph.mul
// CHECK:           graph.add
// CHECK-NOT:     graph.fusion
func.func @chain(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %two = graph.constant dense<2.0> : tensor<8xf32>
  %e = graph.exp %x : tensor<8xf32>
  %m = graph.mul %x, %two : tensor<8xf32>
  %y = graph.add %m, %e : tensor<8xf32>
  return %y, %e : tensor<8xf32>, tensor<8xf32>
}

// -----

// Scalars share one group; a contiguous slice is an alias.
// CHECK-LABEL: func.func @scalars
// CHECK:         graph.slice
// CHECK:         graph.reshape
// CHECK:         graph.fusion "scalars"(%{{.*}}, %{{.*}}) {{.*}} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<i1>)
// CHECK-NOT:     graph.fusion
func.func @scalars(%x: tensor<f32>, %step: tensor<16xf32>) -> (tensor<f32>, tensor<i1>) {
  %s = graph.slice %step, [3] : tensor<16xf32> -> tensor<1xf32>
  %c = graph.reshape %s : tensor<1xf32> -> tensor<f32>
  %r = graph.sqrt %x : tensor<f32>
  %f = graph.compare lt, %r, %c : tensor<f32> -> tensor<i1>
  return %r, %f : tensor<f32>, tensor<i1>
}

// -----

// A collective parts them: scalars before it and after it are two groups.
// CHECK-LABEL: func.func @norm
// CHECK:         %[[SUM:.*]] = graph.fusion "scalars"(
// CHECK:         %[[ALL:.*]] = dist.all_reduce %[[SUM]]
// CHECK:         graph.fusion "scalars"(%[[ALL]]) {{.*}} : (tensor<f32>) -> (tensor<f32>, tensor<i1>)
// CHECK-NOT:     graph.fusion
func.func @norm(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>) -> (tensor<f32>, tensor<i1>) {
  %ab = graph.add %a, %b : tensor<f32>
  %abc = graph.add %ab, %c : tensor<f32>
  %all = dist.all_reduce %abc axis "data" : tensor<f32>
  %r = graph.sqrt %all : tensor<f32>
  %f = graph.compare lt, %r, %all : tensor<f32> -> tensor<i1>
  return %r, %f : tensor<f32>, tensor<i1>
}

// -----

// A sum of cotangents is added in place where a kernel can do it; with another reader after it, it is an ordinary add.
// CHECK-LABEL: func.func @sums
// CHECK:         %[[A:.*]] = graph.matmul
// CHECK:         %[[B:.*]] = graph.matmul
// CHECK:         %[[S:.*]] = graph.accumulate %[[A]], %[[B]]
// CHECK:         %[[C:.*]] = graph.matmul
// CHECK:         graph.fusion "add"(%[[S]], %[[C]])
func.func @sums(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = graph.matmul %x, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b = graph.matmul %w, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %s = graph.accumulate %a, %b : tensor<4x4xf32>
  %c = graph.matmul %w, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %t = graph.accumulate %s, %c : tensor<4x4xf32>
  return %s, %t, %c : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// Into a bucket: an addend with another reader is copied.
// CHECK-LABEL: func.func @copied
// CHECK:         %[[D:.*]] = graph.matmul
// CHECK:         %[[P:.*]] = graph.fusion "copy"(%[[D]])
// CHECK:         graph.accumulate %{{.*}}, %[[P]] {first_writes}
func.func @copied(%bucket: tensor<16xf32>, %x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %v = dist.view %bucket[0] : tensor<16xf32> -> tensor<4x4xf32>
  %d = graph.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %s = graph.accumulate %v, %d {first_writes} : tensor<4x4xf32>
  return %s, %d : tensor<4x4xf32>, tensor<4x4xf32>
}

// What a reduce_scatter gives is kept by a kernel over the shard; a gradient that something else reads is copied: it is reduced in place.
// CHECK-LABEL: func.func @reduced
// CHECK:         graph.fusion "copy"(%[[X:.*]]) is part_copy
// CHECK:         %[[SUM:.*]] = dist.reduce_scatter
// CHECK:         graph.fusion "accumulate"(%[[SUM]])
// CHECK:         graph.accumulate
func.func @reduced(%x: tensor<4x4xf32>, %g: tensor<?xf32, #dist.shard<@b>>) -> (tensor<4x4xf32>, tensor<?xf32, #dist.shard<@b>>) {
  %y = graph.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %pack = dist.pack %y at [0] : tensor<4x4xf32> -> tensor<?xf32, #dist.full<@b>>
  %own = dist.reduce_scatter %pack axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  %sum = graph.accumulate %g, %own {first_writes} : tensor<?xf32, #dist.shard<@b>>
  %z = graph.matmul %y, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %z, %sum : tensor<4x4xf32>, tensor<?xf32, #dist.shard<@b>>
}

// -----

// A reduction takes in what it adds up, through a transpose that leaves rows whole.
// CHECK-LABEL: func.func @sums
// CHECK:         graph.fusion "mul_transpose_reduce_sum"(%{{.*}}, %{{.*}}) is chain : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<6x1xf32>
// CHECK-NOT:     graph.fusion
func.func @sums(%x: tensor<2x3x8xf32>, %y: tensor<2x3x8xf32>) -> tensor<6x1xf32> {
  %p = graph.mul %x, %y : tensor<2x3x8xf32>
  %t = graph.transpose %p, [1, 0, 2] : tensor<2x3x8xf32> -> tensor<3x2x8xf32>
  %r = graph.reshape %t : tensor<3x2x8xf32> -> tensor<6x8xf32>
  %s = graph.reduce_sum %r, [1] : tensor<6x8xf32> -> tensor<6x1xf32>
  return %s : tensor<6x1xf32>
}

// -----

// A number of each row joins what reads it for all of the row: a mean and what it is taken from. A number that another dimension repeats does not, nor
// what a transpose of rows' elements reads.
// CHECK-LABEL: func.func @mean
// CHECK:         graph.fusion "reduce_sum_mul_broadcast_sub"(%{{.*}}) is chain : (tensor<6x8xf32>) -> tensor<6x8xf32>
// CHECK:         %[[S:.*]] = graph.fusion "reduce_sum"(%{{.*}}) {{.*}} -> tensor<6x1xf32>
// CHECK:         graph.fusion "broadcast_mul"(%{{.*}})
// CHECK:         %[[E:.*]] = graph.fusion "exp"(%{{.*}})
// CHECK:         graph.fusion "transpose"(%[[E]])
func.func @mean(%x: tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<8x6xf32>, tensor<8x6xf32>) {
  %eighth = graph.constant dense<1.25e-1> : tensor<6x1xf32>
  %s = graph.reduce_sum %x, [1] : tensor<6x8xf32> -> tensor<6x1xf32>
  %m = graph.mul %s, %eighth : tensor<6x1xf32>
  %b = graph.broadcast %m : tensor<6x1xf32> -> tensor<6x8xf32>
  %y = graph.sub %x, %b : tensor<6x8xf32>
  %t = graph.reduce_sum %y, [1] : tensor<6x8xf32> -> tensor<6x1xf32>
  %r = graph.reshape %t : tensor<6x1xf32> -> tensor<1x6xf32>
  %c = graph.broadcast %r : tensor<1x6xf32> -> tensor<8x6xf32>
  %z = graph.mul %c, %c : tensor<8x6xf32>
  %e = graph.exp %y : tensor<6x8xf32>
  %u = graph.transpose %e, [1, 0] : tensor<6x8xf32> -> tensor<8x6xf32>
  return %y, %z, %u : tensor<6x8xf32>, tensor<8x6xf32>, tensor<8x6xf32>
}
