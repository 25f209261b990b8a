// RUN: ztc-opt %s --ztc-form-buckets -verify-diagnostics -split-input-file

// expected-error @+1 {{two parameters are called "w"}}
func.func @eval(%a: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}, %b: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) attributes {graph.entry = #graph.entry<eval>} {
  return
}

// -----

// expected-error @+1 {{yields no gradient of 'w'}}
func.func @microstep(%a: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
  return
}

// -----

func.func @microstep() attributes {graph.entry = #graph.entry<microstep>} {
  return
}
// expected-error @+1 {{takes parameter 'w', which the other functions do not know in this type}}
func.func @eval(%a: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) attributes {graph.entry = #graph.entry<eval>} {
  return
}
