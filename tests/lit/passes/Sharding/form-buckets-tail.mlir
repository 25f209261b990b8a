// RUN: ztc-opt %s --split-input-file --ztc-form-buckets --ztc-verify-shard | FileCheck %s

// The first block's bucket is cut where no more than half of it has been read, before gate and up, which one value is multiplied by; the second
// block's is whole, and so is a bucket of which one part would be small. What has no weight decay is apart.
// CHECK:       dist.bucket @block0 {decayed = 262144 : i64, elements = 262144 : i64, layer = 0 : i64, parameters = [{name = "0.q_proj"
// CHECK-SAME:    {name = "0.k_proj"
// CHECK-NEXT:  dist.bucket @block0_frozen {{.*}}name = "0.scale"
// CHECK-NEXT:  dist.bucket @block0_tail {decayed = 1048576 : i64, elements = 1048576 : i64, layer = 0 : i64, parameters = [{name = "0.gate_proj"
// CHECK-SAME:    {name = "0.up_proj"
// CHECK-NEXT:  dist.bucket @block0_undecayed {decayed = 0 : i64, elements = 256 : i64, layer = 0 : i64, parameters = [{name = "0.norm"
// CHECK-NEXT:  dist.bucket @block1 {decayed = 1048576 : i64
// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    %[[HEAD:[^:]*]]: tensor<262144xf32> {graph.bucket = @block0,
// CHECK-SAME:    %[[TAIL:[^:]*]]: tensor<1048576xf32> {graph.bucket = @block0_tail,
// CHECK-DAG:     dist.view %[[HEAD]][131072] : tensor<262144xf32> -> tensor<512x256xf32>
// CHECK-DAG:     dist.view %[[TAIL]][524288] : tensor<1048576xf32> -> tensor<1024x512xf32>
func.func @forward(%x: tensor<8x256xf32>,
    %up: tensor<1024x512xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "0.up_proj"},
    %q: tensor<512x256xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "0.q_proj"},
    %k: tensor<512x256xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "0.k_proj"},
    %gate: tensor<1024x512xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "0.gate_proj"},
    %norm: tensor<256xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "0.norm", graph.no_decay},
    %scale: tensor<8x512xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "0.scale", graph.frozen},
    %a: tensor<1024x512xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "1.up_proj"},
    %b: tensor<1024x512xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "1.gate_proj"}) -> (tensor<8x1024xf32>, tensor<8x1024xf32>) {
  %n = graph.rms_norm %x, %norm, 1.0e-5 : tensor<8x256xf32>, tensor<256xf32>
  %0 = graph.matmul %n, %q {transpose_b} : tensor<8x256xf32>, tensor<512x256xf32> -> tensor<8x512xf32>
  %1 = graph.matmul %n, %k {transpose_b} : tensor<8x256xf32>, tensor<512x256xf32> -> tensor<8x512xf32>
  %2 = graph.add %0, %1 : tensor<8x512xf32>
  %3 = graph.mul %2, %scale : tensor<8x512xf32>
  %4 = graph.matmul %3, %gate {transpose_b} : tensor<8x512xf32>, tensor<1024x512xf32> -> tensor<8x1024xf32>
  %5 = graph.matmul %3, %up {transpose_b} : tensor<8x512xf32>, tensor<1024x512xf32> -> tensor<8x1024xf32>
  %6 = graph.matmul %3, %a {transpose_b} : tensor<8x512xf32>, tensor<1024x512xf32> -> tensor<8x1024xf32>
  %7 = graph.matmul %2, %b {transpose_b} : tensor<8x512xf32>, tensor<1024x512xf32> -> tensor<8x1024xf32>
  %8 = graph.add %4, %5 : tensor<8x1024xf32>
  %9 = graph.add %6, %7 : tensor<8x1024xf32>
  return %8, %9 : tensor<8x1024xf32>, tensor<8x1024xf32>
}

// -----

// Where each bucket is clipped by its own norm none is cut.
// CHECK:       dist.bucket @block0 {decayed = 655360 : i64
// CHECK-NEXT:  dist.bucket @block1
module attributes {graph.update_in_backward} {
  func.func @forward(%x: tensor<8x256xf32>,
      %q: tensor<512x256xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "0.q_proj"},
      %up: tensor<1024x512xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "0.up_proj"},
      %a: tensor<512x1024xf32> {graph.role = #graph.role<parameter>, graph.layer = 1 : i64, graph.name = "1.up_proj"}) -> tensor<8x512xf32> {
    %0 = graph.matmul %x, %q {transpose_b} : tensor<8x256xf32>, tensor<512x256xf32> -> tensor<8x512xf32>
    %1 = graph.matmul %0, %up {transpose_b} : tensor<8x512xf32>, tensor<1024x512xf32> -> tensor<8x1024xf32>
    %2 = graph.matmul %1, %a {transpose_b} : tensor<8x1024xf32>, tensor<512x1024xf32> -> tensor<8x512xf32>
    return %2 : tensor<8x512xf32>
  }
}
