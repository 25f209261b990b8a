// Each post-condition of phase `precision`, broken once.
// RUN: ztc-opt %s --ztc-verify-precision -verify-diagnostics -split-input-file

// expected-error @+1 {{N1: graph.precision is not fp32, bf16, fp16 or fp8}}
module attributes {graph.precision = "fp4"} {
}

// -----

module attributes {graph.precision = "bf16"} {
  func.func @microstep(%x: tensor<16x16xbf16>) attributes {graph.entry = #graph.entry<microstep>} {
    // expected-error @+1 {{N1: gives fp8 codes in another precision than fp8: 'tensor<16x16xf8E4M3FN>'}}
    %s, %q = graph.quantize_fp8 %x {by_rows} : tensor<16x16xbf16> -> tensor<2xf32>, tensor<16x16xf8E4M3FN>
    return
  }
}

// -----

module attributes {graph.precision = "bf16"} {
  func.func @microstep(%x: tensor<4xf16>) attributes {graph.entry = #graph.entry<microstep>} {
    // expected-error @+1 {{N1: gives 'tensor<4xf16>' in precision 'bf16'}}
    %y = graph.exp %x : tensor<4xf16>
    return
  }
}

// -----

module attributes {graph.precision = "bf16"} {
  func.func @eval(%x: tensor<2x3x2x4xf32>, %t: tensor<3x2xf32>) attributes {graph.entry = #graph.entry<eval>} {
    // expected-error @+1 {{N2: an operand is 'tensor<2x3x2x4xf32>', the policy says 'bf16'}}
    %y = graph.rope %x, %t, %t : tensor<2x3x2x4xf32>, tensor<3x2xf32>
    return
  }
}

// -----

module attributes {graph.precision = "bf16"} {
  // expected-error @+1 {{N3: parameter 'w' is 'f32', expected 'bf16'}}
  func.func @eval(%w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) attributes {graph.entry = #graph.entry<eval>} {
    return
  }
}

// -----

module attributes {graph.precision = "bf16"} {
  // expected-error @+1 {{N3: result 0 (gradient) is 'tensor<4xbf16>'}}
  func.func @microstep(%w: tensor<4xbf16> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<4xbf16> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
    return %w : tensor<4xbf16>
  }
}

// -----

module attributes {graph.precision = "bf16"} {
  // expected-error @+1 {{N4: the gradient of 'w' has not the type of the parameter}}
  func.func @update(%w: tensor<4xbf16> {graph.role = #graph.role<parameter>, graph.name = "w"}, %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<update>} {
    return
  }
}

// -----

module attributes {graph.precision = "bf16"} {
  // expected-error @+1 {{N4: the master of 'w' does not fit a parameter of 'bf16'}}
  func.func @update(%w: tensor<4xbf16> {graph.role = #graph.role<parameter>, graph.name = "w"}, %g: tensor<4xbf16> {graph.role = #graph.role<gradient>, graph.name = "w"},
                    %m: tensor<4xf32> {graph.role = #graph.role<master>, graph.name = "w"}) attributes {graph.entry = #graph.entry<update>} {
    return
  }
}

// -----

module attributes {graph.precision = "fp32"} {
  // expected-error @+1 {{N4: the states of 'w' have not one type of f32 and bf16}}
  func.func @update(%w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}, %g: tensor<4xf32> {graph.role = #graph.role<gradient>, graph.name = "w"},
                    %m: tensor<4xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg", graph.name = "w"}, %v: tensor<4xbf16> {graph.role = #graph.role<state>, graph.state = "exp_avg_sq", graph.name = "w"}) attributes {graph.entry = #graph.entry<update>} {
    return
  }
}

// -----

module attributes {graph.precision = "bf16"} {
  func.func @eval(%x: tensor<4x4xbf16>) attributes {graph.entry = #graph.entry<eval>} {
    %y = graph.cast %x : tensor<4x4xbf16> -> tensor<4x4xf32>
    // expected-error @+1 {{N5: rounds what was widened from the same type}}
    %z = graph.cast %y : tensor<4x4xf32> -> tensor<4x4xbf16>
    return
  }
}

// -----

module attributes {graph.precision = "bf16"} {
  func.func @eval(%x: tensor<4x4xf32>) attributes {graph.entry = #graph.entry<eval>} {
    // expected-error @+1 {{N5: rounds a value that is rounded to this type elsewhere too}}
    %y = graph.cast %x : tensor<4x4xf32> -> tensor<4x4xbf16>
    %z = graph.cast %x : tensor<4x4xf32> -> tensor<4x4xbf16>
    return
  }
}

// -----

module attributes {graph.precision = "bf16"} {
  func.func @microstep(%x: tensor<4x4xbf16>, %w: tensor<7x4xbf16>, %t: tensor<4xi32>) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<microstep>} {
    // expected-error @+1 {{N6: gives an f32 activation that the backward part reads: 'tensor<4x4xf32>'}}
    %y = graph.cast %x : tensor<4x4xbf16> -> tensor<4x4xf32>
    %loss = graph.linear_cross_entropy %x, %w, %t : tensor<4x4xbf16>, tensor<7x4xbf16>, tensor<4xi32> -> tensor<f32>
    // expected-note @+1 {{it is read here}}
    %z = graph.exp %y : tensor<4x4xf32>
    return %loss : tensor<f32>
  }
}
