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
