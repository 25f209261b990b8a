// RUN: ztc-opt %s --ztc-mark-rates="rates=lora_B=16,^norm=0.5" | FileCheck %s

// CHECK: tensor<4x8xf32> {graph.frozen, graph.name = "q.lora_B.frozen", graph.role = #graph.role<parameter>}
// CHECK-SAME: tensor<4x8xf32> {graph.name = "q.lora_A", graph.role = #graph.role<parameter>}
// CHECK-SAME: tensor<4x8xf32> {graph.name = "q.lora_B", graph.rate = 1.600000e+01 : f64, graph.role = #graph.role<parameter>}
// CHECK-SAME: tensor<8xf32> {graph.name = "norm", graph.rate = 5.000000e-01 : f64, graph.role = #graph.role<parameter>}
func.func @forward(%f: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "q.lora_B.frozen", graph.frozen},
                   %a: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "q.lora_A"},
                   %b: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "q.lora_B"},
                   %n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "norm"}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
