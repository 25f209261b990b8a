// RUN: ztc-opt %s --ztc-freeze-parameters="pattern=layers" --verify-diagnostics

// expected-error@+1 {{the freeze pattern 'layers' matches no parameter}}
func.func @forward(%n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "norm"}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
