// RUN: ztc-opt %s --split-input-file --verify-diagnostics

// What steers is an attribute that the dialect knows; a word that none of its enums has is refused where it is read.

// expected-error @+2 {{expected one of [tokens, targets, step, position,}}
// expected-error @+1 {{failed to parse Graph_RoleAttr parameter 'value'}}
func.func @f(%x: tensor<2xi32> {graph.role = #graph.role<tokns>}) {
  return
}

// -----

// expected-error @+1 {{"graph.role" holds "tokens", it should be a #graph.role}}
func.func @f(%x: tensor<2xi32> {graph.role = "tokens"}) {
  return
}

// -----

// expected-error @+1 {{"graph.entry" holds #graph.role<step>, it should be an #graph.entry}}
func.func @f() attributes {graph.entry = #graph.role<step>} {
  return
}

// -----

// expected-error @+1 {{the graph dialect has no attribute "graph.entri" that stands here}}
func.func @f() attributes {graph.entri = #graph.entry<eval>} {
  return
}

// -----

// A layer is said of a parameter, not of an op: which block an op is of follows from what it reads.
func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{the graph dialect has no attribute "graph.layer" that stands here}}
  %0 = graph.neg %x {graph.layer = 0 : i64} : tensor<2xf32>
  return
}

// -----

// expected-error @+1 {{"graph.layer" holds -1 : i64, it should be a 64-bit integer that is not negative}}
func.func @f(%x: tensor<2xf32> {graph.layer = -1 : i64}) {
  return
}

// -----

// expected-error @+1 {{"graph.result" holds "loss", it should be a #graph.result}}
func.func @f(%x: tensor<f32>) -> (tensor<f32> {graph.result = "loss"}) {
  return %x : tensor<f32>
}

// -----

// expected-error @+1 {{"graph.batch" holds 2 : i32, it should be a 64-bit integer that is not negative}}
module attributes {graph.batch = 2 : i32} {
}
