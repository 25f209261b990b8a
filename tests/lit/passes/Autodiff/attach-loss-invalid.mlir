// RUN: ztc-opt %s --ztc-attach-loss --split-input-file --verify-diagnostics

// expected-error@+1 {{has no function @forward with a body}}
module {}

// -----

// expected-error@+1 {{'func.func' op has 0 arguments with the role tokens, expected one}}
func.func @forward(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {graph.entry = #graph.entry<forward>} {
  return %x : tensor<2x4xf32>
}

// -----

// The clone that fails stands at the same place.
// expected-error@+1 {{'func.func' op returns 2 values where logits alone are expected}}
func.func @forward(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {graph.entry = #graph.entry<forward>} {
  return %x, %x : tensor<2x4xf32>, tensor<2x4xf32>
}
