// RUN: ztc-opt %s --ztc-mark-decay="pattern=*a" --verify-diagnostics

// expected-error@+1 {{the no-decay pattern '*a' is not a regular expression: }}
func.func @forward(%n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "norm"}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
