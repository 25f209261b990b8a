// Post-conditions of phase `schedule`, each broken once.
// RUN: ztc-opt %s --ztc-verify-schedule -verify-diagnostics -split-input-file


func.func @o2(%x: tensor<4x4xf32>, %w: tensor<16xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{O2: stands before an op that does not read it}}
  %v = dist.view %w[0] : tensor<16xf32> -> tensor<4x4xf32>
  %y = graph.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %z = graph.matmul %y, %v : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %z : tensor<4x4xf32>
}

// -----

func.func @o3(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %b = graph.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %a = graph.matmul %x, %x {transpose_a} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  // expected-error @+1 {{O3: the addend is computed before the sum}}
  %s = graph.accumulate %a, %b : tensor<4x4xf32>
  return %s : tensor<4x4xf32>
}

// -----

func.func @o4(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{O4: is not split into start and done}}
  %y = dist.all_reduce %x axis "data" : tensor<f32>
  return %y : tensor<f32>
}

// -----

func.func @o4(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %p = dist.all_reduce_start %x axis "data" {order = 1 : i64} : tensor<f32> -> !dist.pending<tensor<f32>>
  %y = dist.all_reduce_done %p : !dist.pending<tensor<f32>>
  // expected-error @+1 {{O4: its place in the launch order, 1, is not after 1}}
  %q = dist.all_reduce_start %x axis "data" {order = 1 : i64} : tensor<f32> -> !dist.pending<tensor<f32>>
  %z = dist.all_reduce_done %q : !dist.pending<tensor<f32>>
  return %y, %z : tensor<f32>, tensor<f32>
}

// -----

module attributes {dist.prefetch = 0 : i64} {
  dist.bucket @block0 {decayed = 16 : i64, elements = 16 : i64, layer = 0 : i64, trainable, parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4, 4>}]}
  dist.bucket @block1 {decayed = 16 : i64, elements = 16 : i64, layer = 1 : i64, trainable, parameters = [{name = "b", offset = 0 : i64, shape = array<i64: 4, 4>}]}
  func.func @o5(%a: tensor<?xf32, #dist.shard<@block0>>, %b: tensor<?xf32, #dist.shard<@block1>>) -> tensor<4x4xf32> {
    %p = dist.all_gather_start %a axis "data" {order = 0 : i64} : tensor<?xf32, #dist.shard<@block0>> -> !dist.pending<tensor<?xf32, #dist.full<@block0>>>
    // expected-error @+1 {{O5: 2 blocks would have gathered parameters, 0 may run ahead}}
    %q = dist.all_gather_start %b axis "data" {order = 1 : i64} : tensor<?xf32, #dist.shard<@block1>> -> !dist.pending<tensor<?xf32, #dist.full<@block1>>>
    %f = dist.all_gather_done %p : !dist.pending<tensor<?xf32, #dist.full<@block0>>>
    %g = dist.all_gather_done %q : !dist.pending<tensor<?xf32, #dist.full<@block1>>>
    %v = dist.view %f[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<4x4xf32>
    %w = dist.view %g[0] : tensor<?xf32, #dist.full<@block1>> -> tensor<4x4xf32>
    %y = graph.matmul %v, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    return %y : tensor<4x4xf32>
  }
}

// -----

func.func @o6(%a: tensor<?xf32, #dist.shard<@block0>>, %targets: tensor<4xi32>, %scale: tensor<f32>) -> (tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %p = dist.all_gather_start %a axis "data" {order = 0 : i64} : tensor<?xf32, #dist.shard<@block0>> -> !dist.pending<tensor<?xf32, #dist.full<@block0>>>
  // expected-error @+1 {{O6: is read after the next gather of @block0}}
  %f = dist.all_gather_done %p : !dist.pending<tensor<?xf32, #dist.full<@block0>>>
  %v = dist.view %f[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<4x4xf32>
  %x = graph.matmul %v, %v : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %loss, %dx, %dh = graph.linear_cross_entropy %x, %x, %targets scale %scale : tensor<f32> : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xi32> -> tensor<f32>, tensor<4x4xf32> and tensor<4x4xf32>
  %q = dist.all_gather_start %a axis "data" {order = 1 : i64} : tensor<?xf32, #dist.shard<@block0>> -> !dist.pending<tensor<?xf32, #dist.full<@block0>>>
  %g = dist.all_gather_done %q : !dist.pending<tensor<?xf32, #dist.full<@block0>>>
  %y = graph.matmul %dx, %v : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %w = dist.view %g[0] : tensor<?xf32, #dist.full<@block0>> -> tensor<4x4xf32>
  %z = graph.matmul %dh, %w : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %loss, %y, %z : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

func.func @o7(%a: tensor<?xf32, #dist.full<@block0>>, %b: tensor<?xf32, #dist.full<@block1>>) -> (tensor<?xf32, #dist.shard<@block0>>, tensor<?xf32, #dist.shard<@block1>>) {
  %p = dist.reduce_scatter_start %a axis "data" {order = 0 : i64} : tensor<?xf32, #dist.full<@block0>> -> !dist.pending<tensor<?xf32, #dist.shard<@block0>>>
  // expected-error @+1 {{O7: starts while another reduce_scatter is in flight}}
  %q = dist.reduce_scatter_start %b axis "data" {order = 1 : i64} : tensor<?xf32, #dist.full<@block1>> -> !dist.pending<tensor<?xf32, #dist.shard<@block1>>>
  %x = dist.reduce_scatter_done %p : !dist.pending<tensor<?xf32, #dist.shard<@block0>>>
  %y = dist.reduce_scatter_done %q : !dist.pending<tensor<?xf32, #dist.shard<@block1>>>
  return %x, %y : tensor<?xf32, #dist.shard<@block0>>, tensor<?xf32, #dist.shard<@block1>>
}

// -----

// expected-error @+1 {{O1: has 2 blocks instead of one}}
func.func @o1(%x: tensor<f32>) -> tensor<f32> {
  cf.br ^next
^next:
  return %x : tensor<f32>
}
