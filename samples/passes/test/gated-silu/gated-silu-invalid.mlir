// RUN: ztc-opt --load-dialect-plugin=%plugin --verify-diagnostics %s

// gated_silu (C1)
func.func @f(%gate: tensor<2x3xi32>) -> tensor<2x3xi32> {
  // expected-error @+1 {{is not of floats: 'i32'}}
  %y = sample.gated_silu %gate, %gate : tensor<2x3xi32>
  return %y : tensor<2x3xi32>
}
