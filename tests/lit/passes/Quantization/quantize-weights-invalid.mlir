// RUN: ztc-opt %s --split-input-file --ztc-quantize-weights --verify-diagnostics

// expected-error@+1 {{no weight is stored in fewer bits: none of a linear module is frozen}}
func.func @microstep(%w: tensor<8x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w.weight", graph.quantized = #graph.weight_format<nf4>}) attributes {graph.entry = #graph.entry<microstep>} {
  return
}

// -----
// expected-error@+1 {{needs all bits of 'w.weight', which the folder has in fewer bits}}
func.func @microstep(%w: tensor<8x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w.weight", graph.quantized = #graph.weight_format<nf4>, graph.source = {type = "U8"}}) attributes {graph.entry = #graph.entry<microstep>} {
  return
}

// -----
// expected-error@+1 {{argument 0 of type 'tensor<8xf32>' cannot be stored as nf4}}
func.func @microstep(%w: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "w.weight", graph.frozen, graph.quantized = #graph.weight_format<nf4>}) attributes {graph.entry = #graph.entry<microstep>} {
  return
}
