// RUN: ztc-opt %s --ztc-mark-matrices --verify-diagnostics
// RUN: not ztc-opt %s --ztc-mark-matrices=adjust=half 2>&1 | FileCheck %s

// CHECK: adjust=half: expected match_rms_adamw or original
// expected-error@+1 {{no parameter that is trained is a matrix of a transformer block: there is nothing that muon updates}}
func.func @forward(%n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "norm", graph.layer = 0 : i64},
                   %t: tensor<8x4xf32> {graph.role = #graph.role<parameter>, graph.name = "table"}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
