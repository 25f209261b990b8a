// RUN: ztc-opt %s --ztc-assign-slots --split-input-file | FileCheck %s
// RUN: ztc-opt %s --ztc-assign-slots=chunk-bytes=8388608 --split-input-file | FileCheck %s --check-prefix=BYTES

// Rows of logits at a time, of 1024 x 65536: 16 MiB are always granted, 64 rows; 512 rows are wanted, but half of what the parameters take in
// f32 is not exceeded; an even share of what fits.

// CHECK: graph.linear_cross_entropy {{.*}} {plan.chunk = 64 : i64
// BYTES: graph.linear_cross_entropy {{.*}} {plan.chunk = 32 : i64
dist.bucket @b {decayed = 4194304 : i64, elements = 4194304 : i64, parameters = [{name = "e", offset = 0 : i64, shape = array<i64: 65536, 64>}]}
func.func @eval(%x: tensor<1024x64xf32> {graph.role = #graph.role<tokens>}, %targets: tensor<1024xi32> {graph.role = #graph.role<targets>},
    %p: tensor<4194304xf32> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %e = dist.view %p[0] : tensor<4194304xf32> -> tensor<65536x64xf32>
  %loss = graph.linear_cross_entropy %x, %e, %targets : tensor<1024x64xf32>, tensor<65536x64xf32>, tensor<1024xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Room for 240 rows: five chunks of 205.
// CHECK: graph.linear_cross_entropy {{.*}} {plan.chunk = 205 : i64
dist.bucket @b {decayed = 31457280 : i64, elements = 31457280 : i64, parameters = [{name = "e", offset = 0 : i64, shape = array<i64: 65536, 480>}]}
func.func @eval(%x: tensor<1024x480xf32> {graph.role = #graph.role<tokens>}, %targets: tensor<1024xi32> {graph.role = #graph.role<targets>},
    %p: tensor<31457280xf32> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %e = dist.view %p[0] : tensor<31457280xf32> -> tensor<65536x480xf32>
  %loss = graph.linear_cross_entropy %x, %e, %targets : tensor<1024x480xf32>, tensor<65536x480xf32>, tensor<1024xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// CHECK: graph.linear_cross_entropy {{.*}} {plan.chunk = 512 : i64
dist.bucket @b {decayed = 134217728 : i64, elements = 134217728 : i64, parameters = [{name = "e", offset = 0 : i64, shape = array<i64: 65536, 2048>}]}
func.func @eval(%x: tensor<1024x2048xf32> {graph.role = #graph.role<tokens>}, %targets: tensor<1024xi32> {graph.role = #graph.role<targets>},
    %p: tensor<134217728xf32> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %e = dist.view %p[0] : tensor<134217728xf32> -> tensor<65536x2048xf32>
  %loss = graph.linear_cross_entropy %x, %e, %targets : tensor<1024x2048xf32>, tensor<65536x2048xf32>, tensor<1024xi32> -> tensor<f32>
  return %loss : tensor<f32>
}
