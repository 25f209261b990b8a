// RUN: ztc-opt %s --split-input-file --ztc-insert-adapters --verify-diagnostics

module attributes {graph.adapters = [{kind = "linear", parameter = "v.weight", module = "v", name = "base_model.model.v", rank = 2 : i64}]} {
// expected-error@+1 {{an adapter is to stand beside 'v.weight', which is not a parameter}}
func.func @forward(%w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w.weight"}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
}

// -----
module attributes {graph.adapters = [{kind = "linear", parameter = "w.weight", module = "w", name = "base_model.model.w", rank = 2 : i64}]} {
// expected-error@+1 {{'w.weight' is not a matrix: it can have no adapter}}
func.func @forward(%w: tensor<6xf32> {graph.role = #graph.role<parameter>, graph.name = "w.weight"}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
}

// -----
module attributes {graph.adapters = [{kind = "linear", parameter = "w.weight", module = "w", name = "base_model.model.w", rank = 2 : i64,
                                      a = {path = "adapter_model.safetensors", shape = array<i64: 2, 6>}}]} {
// expected-error@+1 {{the adapter's 'base_model.model.w.lora_A.weight' has the shape [2, 6], the model needs [2, 8]}}
func.func @forward(%x: tensor<4x8xf32>, %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w.weight"}) -> tensor<4x6xf32> attributes {graph.entry = #graph.entry<forward>} {
  %y = graph.matmul %x, %w {transpose_b} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
}
