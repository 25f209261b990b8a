// Each post-condition of phase `codegen`, broken once.
// RUN: ztc-opt %s --ztc-verify-codegen -verify-diagnostics -split-input-file

func.func @k1(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{K1: has no launches}}
  %y = graph.fusion "exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %e = graph.exp %a : tensor<4xf32>
    graph.yield %e : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

func.func @k2(%q: tensor<1x4x1x2xf32>) -> tensor<1x4x1x2xf32> {
  // expected-error @+1 {{K2: has no service kernels}}
  %y = graph.attention %q, %q, %q, 1.0 : tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>
  return %y : tensor<1x4x1x2xf32>
}

// -----

// expected-error @+1 {{K3: there is no image @other}}
plan.kernel @exp "row" [@other]

// -----

// expected-error @+1 {{K3: there is no image @other}}
plan.kernel @exp "row" [{image = @other, block_threads = 256, units_per_block = 1, shared_bytes = 0, registers = 32, local_bytes = 0}]

// -----

plan.image @i "sm_90a" {data = dense<0> : tensor<1xi8>}
// expected-error @+1 {{K3: its version in @i has no units_per_block}}
plan.kernel @exp "row" [{image = @i, block_threads = 256}]
