// RUN: ztc-opt %s --ztc-freeze-parameters="pattern=lm_head" | FileCheck %s

// A tied name counts.
// CHECK: {graph.frozen, graph.name = "embed", graph.role = #graph.role<parameter>, graph.tied = ["lm_head.weight"]}
// CHECK-SAME: {graph.name = "norm", graph.role = #graph.role<parameter>}
func.func @forward(%w: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "embed", graph.tied = ["lm_head.weight"]},
                   %n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "norm"}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
