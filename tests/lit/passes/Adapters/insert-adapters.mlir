// RUN: ztc-opt %s --split-input-file --ztc-insert-adapters | FileCheck %s

// A linear module, as torch.nn.Linear has its weight. What the folder does not have begins fresh.
module attributes {graph.adapters = [{kind = "linear", parameter = "model.layers.0.q.weight", module = "model.layers.0.q",
                                      name = "base_model.model.model.layers.0.q", rank = 2 : i64, scale = 0.5 : f64}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>
// CHECK-SAME: %[[W:.*]]: tensor<6x8xf32> {graph.frozen, graph.layer = 0 : i64, graph.name = "model.layers.0.q.weight"
// CHECK-SAME: %[[A:.*]]: tensor<2x8xf32> {graph.layer = 0 : i64, graph.name = "base_model.model.model.layers.0.q.lora_A.weight", graph.role = #graph.role<parameter>, graph.source = {range = 0.35355{{.*}} : f64, start = "uniform"}}
// CHECK-SAME: %[[B:.*]]: tensor<6x2xf32> {graph.layer = 0 : i64, graph.name = "base_model.model.model.layers.0.q.lora_B.weight", graph.role = #graph.role<parameter>, graph.source = {range = 0.000000e+00 : f64, start = "zero"}}
// CHECK: %[[Y:.*]] = graph.matmul %[[X]], %[[W]] {transpose_b}
// CHECK: %[[H:.*]] = graph.matmul %[[X]], %[[A]] {transpose_b}
// CHECK: %[[S:.*]] = graph.mul %[[H]]
// CHECK: %[[D:.*]] = graph.matmul %[[S]], %[[B]] {transpose_b}
// CHECK: %[[Z:.*]] = graph.add %[[Y]], %[[D]]
// CHECK: return %[[Z]]
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.layer = 0 : i64, graph.name = "model.layers.0.q.weight"}) -> tensor<4x6xf32> attributes {graph.entry = #graph.entry<forward>} {
  %y = graph.matmul %x, %w {transpose_b} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
}

// -----
// A weight that the graph joins with another, and one that lies as (inputs, outputs): columns 6 to 9 of the product.
module attributes {graph.adapters = [{kind = "linear", parameter = "k.weight", module = "k", name = "base_model.model.k", rank = 2 : i64, scale = 1.0 : f64}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2x8xf32> {graph.name = "base_model.model.k.lora_A.weight"
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<4x2xf32> {graph.name = "base_model.model.k.lora_B.weight"
// CHECK: %[[Y:.*]] = graph.matmul
// CHECK: %[[D:.*]] = graph.matmul %{{.*}}, %[[B]] {transpose_b}
// CHECK: %[[P:.*]] = graph.pad %[[D]], [0, 6] : tensor<4x4xf32> -> tensor<4x10xf32>
// CHECK: graph.add %[[Y]], %[[P]]
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %q: tensor<8x6xf32> {graph.role = #graph.role<parameter>, graph.name = "q.weight"},
                   %k: tensor<8x4xf32> {graph.role = #graph.role<parameter>, graph.name = "k.weight"}) -> tensor<4x10xf32> attributes {graph.entry = #graph.entry<forward>} {
  %w = graph.concat %q, %k axis 1 : tensor<8x6xf32>, tensor<8x4xf32> -> tensor<8x10xf32>
  %y = graph.matmul %x, %w : tensor<4x8xf32>, tensor<8x10xf32> -> tensor<4x10xf32>
  return %y : tensor<4x10xf32>
}
}

// -----
// Two products that each read a part of one weight share A and read their rows of B.
module attributes {graph.adapters = [{kind = "linear", parameter = "qk.weight", module = "qk", name = "base_model.model.qk", rank = 2 : i64, scale = 1.0 : f64}]} {
// CHECK-LABEL: func.func @forward
// CHECK-DAG: graph.slice %{{.*}}, [0, 0] : tensor<6x2xf32> -> tensor<2x2xf32>
// CHECK-DAG: graph.slice %{{.*}}, [2, 0] : tensor<6x2xf32> -> tensor<4x2xf32>
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "qk.weight"}) -> (tensor<4x2xf32>, tensor<4x4xf32>) attributes {graph.entry = #graph.entry<forward>} {
  %a = graph.slice %w, [0, 0] : tensor<6x8xf32> -> tensor<2x8xf32>
  %b = graph.slice %w, [2, 0] : tensor<6x8xf32> -> tensor<4x8xf32>
  %y = graph.matmul %x, %a {transpose_b} : tensor<4x8xf32>, tensor<2x8xf32> -> tensor<4x2xf32>
  %z = graph.matmul %x, %b {transpose_b} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  return %y, %z : tensor<4x2xf32>, tensor<4x4xf32>
}
}

// -----
// Any other use reads the sum of the weight and its adapter.
module attributes {graph.adapters = [{kind = "linear", parameter = "w.weight", module = "w", name = "base_model.model.w", rank = 2 : i64, scale = 2.0 : f64}]} {
// CHECK-LABEL: func.func @forward
// CHECK: %[[BA:.*]] = graph.matmul
// CHECK: %[[D:.*]] = graph.mul %[[BA]]
// CHECK: %[[S:.*]] = graph.add %{{.*}}, %[[D]] : tensor<6x8xf32>
// CHECK: graph.exp %[[S]]
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w.weight"}) -> tensor<4x6xf32> attributes {graph.entry = #graph.entry<forward>} {
  %e = graph.exp %w : tensor<6x8xf32>
  %y = graph.matmul %x, %e {transpose_b} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
}

// -----
// A table that the head shares: lookups get the adapter, the product reads a trained copy. Biases may be trained where they are.
module attributes {graph.adapters = [{kind = "embedding", parameter = "embed.weight", module = "embed", name = "base_model.model.embed", rank = 2 : i64, scale = 1.0 : f64},
                                     {kind = "copy", parameter = "embed.weight", module = "head", name = "base_model.model.head.weight", uses = "products"},
                                     {kind = "train", parameter = "head.bias", module = "head", name = "base_model.model.head.bias"}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<6x8xf32> {graph.frozen, graph.name = "embed.weight"
// CHECK-SAME: %[[BIAS:[a-z0-9]+]]: tensor<6xf32> {graph.name = "base_model.model.head.bias", graph.role = #graph.role<parameter>}
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2x6xf32> {graph.name = "base_model.model.embed.lora_embedding_A"
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<8x2xf32> {graph.name = "base_model.model.embed.lora_embedding_B"
// CHECK-SAME: %[[H:[a-z0-9]+]]: tensor<6x8xf32> {graph.name = "base_model.model.head.weight"
// CHECK: graph.embedding %[[T]]
// CHECK: %[[AT:.*]] = graph.transpose %[[A]]
// CHECK: graph.embedding %[[AT]]
// CHECK: graph.matmul %{{.*}}, %[[H]] {transpose_b}
func.func @forward(%t: tensor<1x4xi32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "embed.weight"},
                   %b: tensor<6xf32> {graph.role = #graph.role<parameter>, graph.name = "head.bias"}) -> tensor<4x6xf32> attributes {graph.entry = #graph.entry<forward>} {
  %x = graph.embedding %w, %t : tensor<6x8xf32>, tensor<1x4xi32> -> tensor<1x4x8xf32>
  %r = graph.reshape %x : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %y = graph.matmul %r, %w {transpose_b} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  %a = graph.broadcast %b : tensor<6xf32> -> tensor<4x6xf32>
  %z = graph.add %y, %a : tensor<4x6xf32>
  return %z : tensor<4x6xf32>
}
}

// -----
// Dropout stands in front of A, of each module its own.
module attributes {graph.adapters = [{kind = "linear", parameter = "q.weight", module = "q", name = "base_model.model.q", rank = 2 : i64, scale = 1.0 : f64,
                                      dropout = 2.500000e-01 : f64}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK: %[[Y:.*]] = graph.matmul %[[X]], %{{.*}} {transpose_b}
// CHECK: %[[D:.*]] = graph.dropout %[[X]] {module = "base_model.model.q", probability = 2.500000e-01 : f64}
// CHECK: graph.matmul %[[D]], %{{.*}} {transpose_b}
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "q.weight"}) -> tensor<4x6xf32> attributes {graph.entry = #graph.entry<forward>} {
  %y = graph.matmul %x, %w {transpose_b} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
}

// -----
// DoRA: the sum of both products times magnitude / norm, in each row. The norm is made of W A^T, A A^T and the squares of W, in f32, and is a constant to the gradient.
module attributes {graph.adapters = [{kind = "linear", parameter = "q.weight", module = "q", name = "base_model.model.q", rank = 2 : i64, scale = 0.5 : f64, dora}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<6x8xf32>
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<2x8xf32> {graph.name = "base_model.model.q.lora_A.weight"
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<6x2xf32> {graph.name = "base_model.model.q.lora_B.weight"
// CHECK-SAME: %[[M:[a-z0-9]+]]: tensor<6xf32> {graph.name = "base_model.model.q.lora_magnitude_vector", graph.role = #graph.role<parameter>, graph.source = {range = 0.000000e+00 : f64, start = "one"}}
// CHECK: %[[W2:.*]] = graph.mul %[[W]], %[[W]] {graph.wide}
// CHECK: graph.reduce_sum %[[W2]], [1] {graph.wide}
// CHECK: graph.matmul %[[W]], %[[A]] {graph.wide, transpose_b} : tensor<6x8xf32>, tensor<2x8xf32> -> tensor<6x2xf32>
// CHECK: %[[G:.*]] = graph.matmul %[[A]], %[[A]] {graph.wide, transpose_b}
// CHECK: graph.matmul %[[B]], %[[G]] {graph.wide}
// CHECK: %[[N:.*]] = graph.sqrt %{{.*}} {graph.detached, graph.wide}
// CHECK: %[[C:.*]] = graph.div %[[M]], %[[N]] {graph.wide}
// CHECK: %[[Y:.*]] = graph.matmul %[[X]], %[[W]] {transpose_b}
// CHECK: %[[Z:.*]] = graph.add %[[Y]]
// CHECK: %[[R:.*]] = graph.broadcast %[[C]] {graph.wide} : tensor<6xf32> -> tensor<4x6xf32>
// CHECK: %[[V:.*]] = graph.mul %[[Z]], %[[R]]
// CHECK: return %[[V]]
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "q.weight"}) -> tensor<4x6xf32> attributes {graph.entry = #graph.entry<forward>} {
  %y = graph.matmul %x, %w {transpose_b} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
}

// -----
// Where x is dropped out it multiplies W once more. Of a joined weight (inputs, outputs) other columns get nothing.
module attributes {graph.adapters = [{kind = "linear", parameter = "k.weight", module = "k", name = "base_model.model.k", rank = 2 : i64, scale = 1.0 : f64, dora,
                                      dropout = 2.500000e-01 : f64}]} {
// CHECK-LABEL: func.func @forward
// CHECK: %[[Y:.*]] = graph.matmul %{{.*}} : tensor<4x8xf32>, tensor<8x10xf32> -> tensor<4x10xf32>
// CHECK: %[[D:.*]] = graph.dropout
// CHECK: graph.matmul %[[D]], %{{.*}} {transpose_b}
// CHECK: graph.matmul %[[D]], %{{.*}} : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
// CHECK: graph.sub %{{.*}}, %{{.*}} : tensor<4xf32>
// CHECK: %[[P:.*]] = graph.pad %{{.*}}, [0, 6] : tensor<4x4xf32> -> tensor<4x10xf32>
// CHECK: graph.add %[[Y]], %[[P]]
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %q: tensor<8x6xf32> {graph.role = #graph.role<parameter>, graph.name = "q.weight"},
                   %k: tensor<8x4xf32> {graph.role = #graph.role<parameter>, graph.name = "k.weight"}) -> tensor<4x10xf32> attributes {graph.entry = #graph.entry<forward>} {
  %w = graph.concat %q, %k axis 1 : tensor<8x6xf32>, tensor<8x4xf32> -> tensor<8x10xf32>
  %y = graph.matmul %x, %w : tensor<4x8xf32>, tensor<8x10xf32> -> tensor<4x10xf32>
  return %y : tensor<4x10xf32>
}
}

// -----
// Trained rows of a table.
module attributes {graph.adapters = [{kind = "rows", parameter = "embed.weight", module = "embed", name = "base_model.model.embed.token_adapter.trainable_tokens_delta",
                                      rows = array<i64: 5, 2>}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[T:[a-z0-9]+]]: tensor<1x4xi32>
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<2x8xf32> {graph.name = "base_model.model.embed.token_adapter.trainable_tokens_delta"
// CHECK: %[[E:.*]] = graph.embedding
// CHECK: graph.compare eq
// CHECK: graph.compare eq
// CHECK: %[[K:.*]] = graph.compare ge
// CHECK: %[[F:.*]] = graph.embedding %[[R]]
// CHECK: graph.select %{{.*}}, %[[F]], %[[E]]
func.func @forward(%t: tensor<1x4xi32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "embed.weight"}) -> tensor<1x4x8xf32> attributes {graph.entry = #graph.entry<forward>} {
  %x = graph.embedding %w, %t : tensor<6x8xf32>, tensor<1x4xi32> -> tensor<1x4x8xf32>
  return %x : tensor<1x4x8xf32>
}
}

// -----
// The padding row among them: its lookups give no gradient, wherever it lies.
module attributes {graph.adapters = [{kind = "rows", parameter = "embed.weight", module = "embed", name = "base_model.model.embed.token_adapter.trainable_tokens_delta",
                                      rows = array<i64: 5, 2>}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<2x8xf32> {graph.name = "base_model.model.embed.token_adapter.trainable_tokens_delta"
// CHECK: graph.embedding %{{.*}} {padding = 2 : i64}
// CHECK: graph.embedding %[[R]], %{{.*}} {padding = 1 : i64}
func.func @forward(%t: tensor<1x4xi32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "embed.weight"}) -> tensor<1x4x8xf32> attributes {graph.entry = #graph.entry<forward>} {
  %x = graph.embedding %w, %t {padding = 2 : i64} : tensor<6x8xf32>, tensor<1x4xi32> -> tensor<1x4x8xf32>
  return %x : tensor<1x4x8xf32>
}
}

// -----
// A table that is the head too: the product reads it with the trained rows in their places, of the padding row too.
module attributes {graph.adapters = [{kind = "rows", parameter = "embed.weight", module = "embed", name = "base_model.model.embed.token_adapter.trainable_tokens_delta",
                                      rows = array<i64: 5, 2>}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<6x8xf32> {graph.frozen, graph.name = "embed.weight"
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<2x8xf32> {graph.name = "base_model.model.embed.token_adapter.trainable_tokens_delta"
// CHECK: %[[E:.*]] = graph.embedding %[[W]], %{{.*}} {padding = 2 : i64}
// CHECK: %[[F:.*]] = graph.embedding %[[R]], %{{.*}} {padding = 1 : i64}
// CHECK: %[[X:.*]] = graph.select %{{.*}}, %[[F]], %[[E]]
// CHECK: %[[H:.*]] = graph.reshape %[[X]]
// CHECK: %[[P:.*]] = graph.constant dense<[5, 2]> : tensor<2xi32>
// CHECK: %[[M:.*]] = graph.embedding_grad %[[P]], %{{.*}} : tensor<2xi32>, tensor<2x1xf32> -> tensor<6x1xf32>
// CHECK: graph.compare gt, %[[M]]
// CHECK-DAG: %[[S:.*]] = graph.embedding_grad %[[P]], %[[R]] : tensor<2xi32>, tensor<2x8xf32> -> tensor<6x8xf32>
// CHECK-DAG: %[[K:.*]] = graph.select %{{.*}}, %{{.*}}, %[[W]]
// CHECK: %[[V:.*]] = graph.add %[[S]], %[[K]]
// CHECK: graph.matmul %[[H]], %[[V]] {transpose_b}
func.func @forward(%t: tensor<1x4xi32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "embed.weight"}) -> tensor<4x6xf32> attributes {graph.entry = #graph.entry<forward>} {
  %x = graph.embedding %w, %t {padding = 2 : i64} : tensor<6x8xf32>, tensor<1x4xi32> -> tensor<1x4x8xf32>
  %r = graph.reshape %x : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %y = graph.matmul %r, %w {transpose_b} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
}

// -----
// Two experts share the factors of their stack: each has its rows of A, and of B its elements, which lie one after the other.
module attributes {graph.adapters = [{kind = "expert", parameter = "e.0", module = "e.0", name = "base_model.model.e", rank = 2 : i64, scale = 1.0 : f64, experts = 2 : i64,
                                      expert = 0 : i64, outputs = 6 : i64, first_output = 0 : i64},
                                     {kind = "expert", parameter = "e.1", module = "e.1", name = "base_model.model.e", rank = 2 : i64, scale = 1.0 : f64, experts = 2 : i64,
                                      expert = 1 : i64, outputs = 6 : i64, first_output = 0 : i64}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<4x8xf32> {graph.name = "base_model.model.e.lora_A.weight"
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<6x4xf32> {graph.name = "base_model.model.e.lora_B.weight"
// CHECK: %[[B3:.*]] = graph.reshape %[[B]] : tensor<6x4xf32> -> tensor<6x2x2xf32>
// CHECK: graph.transpose %[[B3]], [2, 0, 1]
// CHECK: graph.slice %[[A]], [0, 0] : tensor<4x8xf32> -> tensor<2x8xf32>
// CHECK: graph.slice %[[A]], [2, 0] : tensor<4x8xf32> -> tensor<2x8xf32>
// CHECK: graph.slice %{{.*}}, [6, 0] : tensor<12x2xf32> -> tensor<6x2xf32>
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %w: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "e.0"},
                   %v: tensor<6x8xf32> {graph.role = #graph.role<parameter>, graph.name = "e.1"}) -> tensor<4x6xf32> attributes {graph.entry = #graph.entry<forward>} {
  %y = graph.matmul %x, %w {transpose_b} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  %z = graph.matmul %x, %v {transpose_b} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  %s = graph.add %y, %z : tensor<4x6xf32>
  return %s : tensor<4x6xf32>
}
}

// -----
// A stack of experts that is one parameter, (experts, inputs, outputs): PEFT's A has a column for each input, B a row for each output.
module attributes {graph.adapters = [{kind = "stack", parameter = "e.down_proj", module = "e", name = "base_model.model.e", rank = 2 : i64, scale = 0.5 : f64}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<6x8xf32> {graph.name = "base_model.model.e.lora_A.weight"
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<5x6xf32> {graph.name = "base_model.model.e.lora_B.weight"
// CHECK: %[[B3:.*]] = graph.reshape %[[B]] : tensor<5x6xf32> -> tensor<5x2x3xf32>
// CHECK: graph.transpose %[[B3]], [2, 0, 1]
// CHECK: %[[A2:.*]] = graph.slice %[[A]], [4, 0] : tensor<6x8xf32> -> tensor<2x8xf32>
// CHECK: %[[B2:.*]] = graph.slice %{{.*}}, [10, 0] : tensor<15x2xf32> -> tensor<5x2xf32>
// CHECK: %[[Y:.*]] = graph.matmul %[[X]], %{{.*}} : tensor<4x8xf32>, tensor<8x5xf32> -> tensor<4x5xf32>
// CHECK: graph.matmul %[[X]], %[[A2]] {transpose_b}
// CHECK: graph.matmul %{{.*}}, %[[B2]] {transpose_b}
// CHECK: graph.add %[[Y]]
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %w: tensor<3x8x5xf32> {graph.role = #graph.role<parameter>, graph.name = "e.down_proj"}) -> tensor<4x5xf32> attributes {graph.entry = #graph.entry<forward>} {
  %s = graph.slice %w, [2, 0, 0] : tensor<3x8x5xf32> -> tensor<1x8x5xf32>
  %m = graph.reshape %s : tensor<1x8x5xf32> -> tensor<8x5xf32>
  %y = graph.matmul %x, %m : tensor<4x8xf32>, tensor<8x5xf32> -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
}

// -----
// Swapped: A has a column for each output, and B a row for each input.
module attributes {graph.adapters = [{kind = "stack", parameter = "e.down_proj", module = "e", name = "base_model.model.e", rank = 2 : i64, scale = 1.0 : f64, swapped}]} {
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<6x5xf32> {graph.name = "base_model.model.e.lora_A.weight"
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<8x6xf32> {graph.name = "base_model.model.e.lora_B.weight"
// CHECK: %[[A2:.*]] = graph.slice %[[A]], [4, 0] : tensor<6x5xf32> -> tensor<2x5xf32>
// CHECK: %[[B2:.*]] = graph.slice %{{.*}}, [16, 0] : tensor<24x2xf32> -> tensor<8x2xf32>
// CHECK: graph.transpose %[[B2]], [1, 0] : tensor<8x2xf32> -> tensor<2x8xf32>
func.func @forward(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>},
                   %w: tensor<3x8x5xf32> {graph.role = #graph.role<parameter>, graph.name = "e.down_proj"}) -> tensor<4x5xf32> attributes {graph.entry = #graph.entry<forward>} {
  %s = graph.slice %w, [2, 0, 0] : tensor<3x8x5xf32> -> tensor<1x8x5xf32>
  %m = graph.reshape %s : tensor<1x8x5xf32> -> tensor<8x5xf32>
  %y = graph.matmul %x, %m : tensor<4x8xf32>, tensor<8x5xf32> -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
}
