// RUN: ztc-opt %s --ztc-form-buckets --ztc-verify-shard | FileCheck %s
// RUN: ztc-opt %s --ztc-choose-stage=zero=2 --ztc-form-buckets | FileCheck %s --check-prefix=MESH

// The tied embedding stands alone; in the block gate and up are neighbours, what has no weight decay comes last; frozen parameters apart.
// CHECK:       dist.bucket @embedding {decayed = 20 : i64, elements = 20 : i64, parameters = [{name = "embed.weight", offset = 0 : i64,
// CHECK-SAME:    shape = array<i64: 5, 4>, tied = ["lm_head.weight"]}], trainable}
// CHECK-NEXT:  dist.bucket @block0 {decayed = 32 : i64, elements = 36 : i64, layer = 0 : i64, parameters = [
// CHECK-SAME:    {name = "layers.0.mlp.gate_proj.weight", offset = 0 : i64, shape = array<i64: 4, 4>},
// CHECK-SAME:    {name = "layers.0.mlp.up_proj.weight", offset = 16 : i64, shape = array<i64: 4, 4>},
// CHECK-SAME:    {name = "layers.0.norm.weight", offset = 32 : i64, shape = array<i64: 4>}], trainable}
// CHECK-NEXT:  dist.bucket @block0_frozen {decayed = 0 : i64, elements = 4 : i64, layer = 0 : i64

// Parameters are views; gradients are added into the buckets, the tied one part by part.
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    %[[E:[^:]*]]: tensor<20xf32> {graph.bucket = @embedding, graph.role = #graph.role<parameter_bucket>}
// CHECK-SAME:    %[[B:[^:]*]]: tensor<36xf32> {graph.bucket = @block0, graph.role = #graph.role<parameter_bucket>}
// CHECK-SAME:    %[[GE:[^:]*]]: tensor<20xf32> {graph.bucket = @embedding, graph.role = #graph.role<gradient_bucket>}
// CHECK-SAME:    %[[GB:[^:]*]]: tensor<36xf32> {graph.bucket = @block0, graph.role = #graph.role<gradient_bucket>}
// CHECK-SAME:    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<20xf32> {graph.bucket = @embedding, graph.result = #graph.result<gradient>},
// CHECK:         dist.view %[[B]][32] : tensor<36xf32> -> tensor<4xf32>
// CHECK:         %[[ROWS:.*]] = graph.embedding_grad
// CHECK:         %[[V:.*]] = dist.view %[[GE]][0]
// CHECK:         %[[S:.*]] = graph.accumulate %[[V]], %dhead {first_writes}
// CHECK:         %[[T:.*]] = graph.accumulate %[[S]], %[[ROWS]] : tensor<5x4xf32>
// CHECK:         %[[PE:.*]] = dist.pack %[[T]] at [0] : tensor<5x4xf32> -> tensor<20xf32>
// CHECK:         %[[PB:.*]] = dist.pack %{{.*}}, %{{.*}}, %{{.*}} at [0, 16, 32]
// CHECK:         return %loss, %[[PE]], %[[PB]]

// The update works on whole buckets.
// CHECK-LABEL: func.func @update(
// CHECK-COUNT-2: graph.sum_squares
// CHECK:         graph.optimizer_step "adamw" {{.*}} decayed 20 : (tensor<20xf32>
// CHECK:         graph.optimizer_step "adamw" {{.*}} decayed 32 : (tensor<36xf32>

// On a mesh the buckets are whole ones of open length, whatever the stage.
// MESH:       dist.bucket @block0_frozen {decayed = 0 : i64, elements = 4 : i64, layer = 0 : i64
// MESH-LABEL: func.func @microstep(
// MESH-SAME:    tensor<?xf32, #dist.full<@block0_frozen>> {graph.bucket = @block0_frozen, graph.role = #graph.role<parameter_bucket>}
// MESH-SAME:    tensor<?xf32, #dist.full<@block0>> {graph.bucket = @block0, graph.role = #graph.role<gradient_bucket>}
// MESH:         dist.view %{{.*}}[32] : tensor<?xf32, #dist.full<@block0>> -> tensor<4xf32>
// MESH:         dist.pack {{.*}} at [0, 16, 32] : {{.*}} -> tensor<?xf32, #dist.full<@block0>>
// MESH-LABEL: func.func @update(
// MESH:         graph.optimizer_step "adamw" {{.*}} decayed 32 : (tensor<?xf32, #dist.full<@block0>>
func.func @microstep(%tokens: tensor<8xi32> {graph.role = #graph.role<tokens>}, %targets: tensor<8xi32> {graph.role = #graph.role<targets>}, %step: tensor<16xf32> {graph.role = #graph.role<step>},
    %w: tensor<5x4xf32> {graph.role = #graph.role<parameter>, graph.name = "embed.weight", graph.tied = ["lm_head.weight"]},
    %n: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.norm.weight", graph.no_decay},
    %up: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.mlp.up_proj.weight"},
    %gate: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.mlp.gate_proj.weight"},
    %f: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.scale", graph.frozen, graph.no_decay})
    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<5x4xf32> {graph.result = #graph.result<gradient>, graph.name = "embed.weight"},
        tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "layers.0.norm.weight"},
        tensor<4x4xf32> {graph.result = #graph.result<gradient>, graph.name = "layers.0.mlp.up_proj.weight"},
        tensor<4x4xf32> {graph.result = #graph.result<gradient>, graph.name = "layers.0.mlp.gate_proj.weight"}) attributes {graph.entry = #graph.entry<microstep>} {
  %x = graph.embedding %w, %tokens : tensor<5x4xf32>, tensor<8xi32> -> tensor<8x4xf32>
  %g = graph.matmul %x, %gate {transpose_b} : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %h = graph.rms_norm %g, %n, 1.0e-5 : tensor<8x4xf32>, tensor<4xf32>
  %s = graph.slice %step, [0] : tensor<16xf32> -> tensor<1xf32>
  %scale = graph.reshape %s : tensor<1xf32> -> tensor<f32>
  %loss, %dh, %dw = graph.linear_cross_entropy %h, %w, %targets scale %scale : tensor<f32> : tensor<8x4xf32>, tensor<5x4xf32>, tensor<8xi32> -> tensor<f32>, tensor<8x4xf32> and tensor<5x4xf32>
  %dg, %dn = graph.rms_norm_grad %g, %n, %dh, 1.0e-5 : tensor<8x4xf32>, tensor<4xf32>
  %dgate = graph.matmul %dg, %x {transpose_a} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %dup = graph.matmul %dg, %dg {transpose_a} : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %dx = graph.matmul %dg, %gate : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
  %rows = graph.embedding_grad %tokens, %dx : tensor<8xi32>, tensor<8x4xf32> -> tensor<5x4xf32>
  %dembed = graph.accumulate %dw, %rows : tensor<5x4xf32>
  return %loss, %dembed, %dn, %dup, %dgate : tensor<f32>, tensor<5x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
func.func @update(%step: tensor<16xf32> {graph.role = #graph.role<step>}, %n: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "layers.0.norm.weight"}) -> (tensor<4xf32> {graph.result = #graph.result<parameter>, graph.name = "layers.0.norm.weight"}) attributes {graph.entry = #graph.entry<update>} {
  return %n : tensor<4xf32>
}
