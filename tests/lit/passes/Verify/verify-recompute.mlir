// Post-conditions of phase `recompute`, each broken once.
// RUN: ztc-opt %s --ztc-verify-recompute -verify-diagnostics -split-input-file


func.func @eval(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {graph.entry = #graph.entry<eval>} {
  // expected-error @+1 {{R1: nothing is recomputed in @eval}}
  %y = graph.neg %x {graph.recomputed} : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

func.func @microstep(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {graph.entry = #graph.entry<microstep>} {
  %loss = graph.neg %x : tensor<f32>
  // expected-error @+1 {{R1: is marked, but is in the backward part}}
  %d = graph.exp %x {graph.recomputed} : tensor<f32>
  return %loss, %d : tensor<f32>, tensor<f32>
}

// -----

func.func @microstep(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {graph.entry = #graph.entry<microstep>} {
  // expected-error @+1 {{R1: is a clone, but is in the forward part}}
  %n = graph.exp %x {graph.recomputation} : tensor<f32>
  %loss = graph.neg %n : tensor<f32>
  %d = graph.exp %x : tensor<f32>
  return %loss, %d : tensor<f32>, tensor<f32>
}

// -----

func.func @microstep(%x: tensor<4x4xf32>, %g: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  // expected-error @+1 {{R2: is marked, but the backward part reads it}}
  %n = graph.exp %x {graph.recomputed} : tensor<4x4xf32>
  %r = graph.reshape %n : tensor<4x4xf32> -> tensor<16xf32>
  %loss = graph.neg %n : tensor<4x4xf32>
  %e = graph.exp %r : tensor<16xf32>
  %d = graph.reshape %e : tensor<16xf32> -> tensor<4x4xf32>
  return %loss, %d : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

func.func @microstep(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {graph.entry = #graph.entry<microstep>} {
  %n = graph.exp %x : tensor<f32>
  %loss = graph.neg %n : tensor<f32>
  // expected-error @+1 {{R3: stands after a value of the forward part}}
  %b = graph.recompute_barrier %x after %n : tensor<f32>, tensor<f32>
  %d = graph.exp %b {graph.recomputation} : tensor<f32>
  return %loss, %d : tensor<f32>, tensor<f32>
}

// -----

func.func @microstep(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {graph.entry = #graph.entry<microstep>} {
  %n = graph.exp %x : tensor<f32>
  %loss = graph.neg %n : tensor<f32>
  %g = graph.neg %loss : tensor<f32>
  // expected-error @+1 {{R4: is a clone that reads neither a barrier nor another clone}}
  %d = graph.mul %x, %g {graph.recomputation} : tensor<f32>
  return %loss, %d : tensor<f32>, tensor<f32>
}
