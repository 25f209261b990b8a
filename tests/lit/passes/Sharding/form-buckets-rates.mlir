// RUN: ztc-opt %s --ztc-form-buckets --ztc-verify-shard | FileCheck %s

// Parameters of one learning rate are neighbours, so that an update compares an element's index with few numbers: a and c, then b.
// CHECK:      dist.bucket @block0 {decayed = 48 : i64, elements = 48 : i64, layer = 0 : i64, parameters = [
// CHECK-SAME:   {name = "layers.0.a", offset = 0 : i64, shape = array<i64: 4, 4>},
// CHECK-SAME:   {name = "layers.0.c", offset = 16 : i64, shape = array<i64: 4, 4>},
// CHECK-SAME:   {name = "layers.0.b", offset = 32 : i64, shape = array<i64: 4, 4>}], trainable}
// CHECK: graph.optimizer_step "adamw" {{.*}} decayed 48 {graph.rate_ends = array<i64: 32, 48>, graph.rate_factors = array<f64: 1.000000e+00, 1.600000e+01>} : (tensor<48xf32>
func.func @microstep(%x: tensor<4x4xf32> {graph.role = #graph.role<data>}, %step: tensor<16xf32> {graph.role = #graph.role<step>},
    %a: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.a"},
    %b: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.b", graph.rate = 16.0 : f64},
    %c: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.c"})
    -> (tensor<4x4xf32> {graph.result = #graph.result<gradient>, graph.name = "layers.0.a"},
        tensor<4x4xf32> {graph.result = #graph.result<gradient>, graph.name = "layers.0.b"},
        tensor<4x4xf32> {graph.result = #graph.result<gradient>, graph.name = "layers.0.c"}) attributes {graph.entry = #graph.entry<microstep>} {
  %da = graph.matmul %x, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %db = graph.matmul %x, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %dc = graph.matmul %x, %c : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %da, %db, %dc : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
func.func @update(%step: tensor<16xf32> {graph.role = #graph.role<step>}, %n: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.a"}) -> (tensor<4xf32> {graph.result = #graph.result<parameter>, graph.name = "layers.0.a"}) attributes {graph.entry = #graph.entry<update>} {
  return %n : tensor<4xf32>
}
