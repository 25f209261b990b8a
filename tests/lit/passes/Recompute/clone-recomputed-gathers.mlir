// With ZeRO-3 a clone reads the gather that backward reads where the clone stands, whatever gather its original reads:
// after a gather of the same bucket nothing may read an earlier one.
// RUN: ztc-opt %s --split-input-file --ztc-clone-recomputed --ztc-verify-shard | FileCheck %s

// The original has a gather of its own; another one serves forward and backward: there is no third one.
// CHECK-LABEL: func.func @microstep
// CHECK:         dist.all_gather %[[S:[a-z0-9]+]] axis "data"
// CHECK:         %[[BOTH:.*]] = dist.all_gather %[[S]] axis "data"
// CHECK:         graph.linear_cross_entropy
// CHECK-NOT:     dist.all_gather
// CHECK:         %[[V:.*]] = dist.view %[[BOTH]][0]
// CHECK:         %[[N:.*]] = graph.rms_norm %{{.*}}, %[[V]], 1.000000e-05 {graph.recomputation}
// CHECK-NEXT:    %[[D:.*]] = graph.matmul %{{.*}}, %[[N]]
// CHECK-NEXT:    graph.mul %[[D]], %
module attributes {dist.zero = 3 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 32 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 4>}, {name = "v", offset = 16 : i64, shape = array<i64: 4, 4>}]}
func.func @microstep(%b: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}, %t: tensor<4xi32>, %s: tensor<f32>, %x: tensor<4x4xf32>, %e: tensor<4x4xf32>) -> (tensor<f32>, tensor<4x4xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %f = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.full<@b>>
  %w = dist.view %f[0] : tensor<?xf32, #dist.full<@b>> -> tensor<4xf32>
  %n = graph.rms_norm %x, %w, 1.0e-5 {graph.recomputed} : tensor<4x4xf32>, tensor<4xf32>
  %g = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.full<@b>>
  %v = dist.view %g[16] : tensor<?xf32, #dist.full<@b>> -> tensor<4x4xf32>
  %h = graph.mul %n, %v : tensor<4x4xf32>
  %loss, %dh, %de = graph.linear_cross_entropy %h, %e, %t scale %s : tensor<f32> : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xi32> -> tensor<f32>, tensor<4x4xf32> and tensor<4x4xf32>
  %d1 = graph.matmul %dh, %n {transpose_a} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %d2 = graph.mul %d1, %v : tensor<4x4xf32>
  return %loss, %d2 : tensor<f32>, tensor<4x4xf32>
}
}

// -----

// Backward reads one that serves both parts first and one of its own later: each clone reads the last one before it.
// CHECK-LABEL: func.func @microstep
// CHECK:         %[[BOTH:.*]] = dist.all_gather
// CHECK:         %[[V1:.*]] = dist.view %[[BOTH]][0]
// CHECK:         graph.linear_cross_entropy
// CHECK:         graph.rms_norm %{{.*}}, %[[V1]], 1.000000e-05 {graph.recomputation}
// CHECK:         %[[OWN:.*]] = dist.all_gather
// CHECK:         %[[V2:.*]] = dist.view %[[OWN]][0]
// CHECK:         graph.rms_norm %{{.*}}, %[[V2]], 2.000000e-05 {graph.recomputation}
module attributes {dist.zero = 3 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 32 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 4>}, {name = "v", offset = 16 : i64, shape = array<i64: 4, 4>}]}
func.func @microstep(%b: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}, %t: tensor<4xi32>, %s: tensor<f32>, %x: tensor<4x4xf32>, %e: tensor<4x4xf32>) -> (tensor<f32>, tensor<4x4xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %f = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.full<@b>>
  %w = dist.view %f[0] : tensor<?xf32, #dist.full<@b>> -> tensor<4xf32>
  %v = dist.view %f[16] : tensor<?xf32, #dist.full<@b>> -> tensor<4x4xf32>
  %n = graph.rms_norm %x, %w, 1.0e-5 {graph.recomputed} : tensor<4x4xf32>, tensor<4xf32>
  %m = graph.rms_norm %x, %w, 2.0e-5 {graph.recomputed} : tensor<4x4xf32>, tensor<4xf32>
  %a = graph.add %n, %m : tensor<4x4xf32>
  %h = graph.mul %a, %v : tensor<4x4xf32>
  %loss, %dh, %de = graph.linear_cross_entropy %h, %e, %t scale %s : tensor<f32> : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xi32> -> tensor<f32>, tensor<4x4xf32> and tensor<4x4xf32>
  %d1 = graph.matmul %dh, %n {transpose_a} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %d2 = graph.mul %d1, %v : tensor<4x4xf32>
  %g = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.full<@b>>
  %v2 = dist.view %g[16] : tensor<?xf32, #dist.full<@b>> -> tensor<4x4xf32>
  %d3 = graph.mul %d2, %v2 : tensor<4x4xf32>
  %d4 = graph.matmul %d3, %m {transpose_a} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %loss, %d4 : tensor<f32>, tensor<4x4xf32>
}
}
