// RUN: ztc-opt %s --ztc-verify-plan -verify-diagnostics -split-input-file

plan.slot @a activations constant 16 x f32 {element_bytes = 4 : i64}
plan.program @eval {
  // expected-error @+1 {{refers to an unknown slot @b}}
  plan.fill "zero" [#plan.operand<write @b, 0, 16>] {value = 0 : i64}
}

// -----

// expected-error @+1 {{is in a module of phase `plan`, where only plan ops belong}}
func.func @eval() attributes {graph.entry = #graph.entry<eval>} {
  return
}

// -----

// The plan file's validator speaks where kernels exist.
// expected-error @+1 {{the plan is not valid: }}
module {
  plan.image @i "x86-64-v3" {data = dense<1> : tensor<4xi8>}
  plan.kernel @k "row" [@i]
}
