// RUN: ztc-opt %s --ztc-mark-decay | FileCheck %s
// RUN: ztc-opt %s --ztc-mark-decay="pattern=^emb" | FileCheck %s --check-prefix=PATTERN

// CHECK: %{{.*}}: tensor<4x8xf32> {graph.name = "embed", graph.role = #graph.role<parameter>}, %{{.*}}: tensor<8xf32> {graph.name = "norm", graph.no_decay, graph.role = #graph.role<parameter>}
// A pattern adds to the rule by rank.
// PATTERN: %{{.*}}: tensor<4x8xf32> {graph.name = "embed", graph.no_decay, graph.role = #graph.role<parameter>}, %{{.*}}: tensor<8xf32> {graph.name = "norm", graph.no_decay, graph.role = #graph.role<parameter>}
func.func @forward(%w: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "embed"},
                   %n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "norm"}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
