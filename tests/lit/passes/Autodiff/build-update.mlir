// RUN: ztc-opt %s --ztc-build-update | FileCheck %s

// CHECK-LABEL: func.func @update(
// CHECK-SAME:    %[[STEP:[^:]*]]: tensor<20xf32> {graph.role = #graph.role<step>},
// CHECK-SAME:    %[[W:[^:]*]]: tensor<4x8xf32> {graph.name = "w", graph.role = #graph.role<parameter>},
// CHECK-SAME:    %[[N:[^:]*]]: tensor<8xf32> {graph.name = "n", graph.no_decay, graph.role = #graph.role<parameter>},
// CHECK-SAME:    %[[DW:[^:]*]]: tensor<4x8xf32> {graph.name = "w", graph.role = #graph.role<gradient>},
// CHECK-SAME:    %[[DN:[^:]*]]: tensor<8xf32> {graph.name = "n", graph.role = #graph.role<gradient>},
// CHECK-SAME:    {graph.name = "w", graph.role = #graph.role<state>, graph.state = "exp_avg"}, {{.*}} {graph.name = "n", graph.role = #graph.role<state>, graph.state = "exp_avg"},
// CHECK-SAME:    {graph.name = "w", graph.role = #graph.role<state>, graph.state = "exp_avg_sq"}, {{.*}} {graph.name = "n", graph.role = #graph.role<state>, graph.state = "exp_avg_sq"})
// CHECK-SAME:    -> (tensor<4x8xf32> {graph.name = "w", graph.result = #graph.result<parameter>},
// CHECK-SAME:    tensor<f32> {graph.result = #graph.result<gradient_norm>}, tensor<i1> {graph.result = #graph.result<finite>})
// CHECK:         %[[FLAT:.*]] = graph.reshape %[[DW]] : tensor<4x8xf32> -> tensor<32xf32>
// CHECK:         %[[SW:.*]] = graph.sum_squares %[[FLAT]]
// CHECK:         %[[SN:.*]] = graph.sum_squares %[[DN]]
// CHECK:         %[[SUM:.*]] = graph.add %[[SW]], %[[SN]]
// CHECK:         %[[NORM:.*]] = graph.sqrt %[[SUM]]
// The limit of a gradient spike: 0 where there is none.
// CHECK:         graph.slice %[[STEP]], [15]
// CHECK:         %[[SHARE:.*]] = graph.mul %[[NORM]],
// CHECK:         %[[FINITE:.*]] = graph.compare lt, %[[SHARE]]
// CHECK:         %[[SCALE:.*]] = graph.minimum
// The norm's weight is not decayed.
// CHECK:         graph.optimizer_step "adamw" {{.*}} by(%[[STEP]], %[[SCALE]], %[[FINITE]]) decayed 32
// CHECK:         graph.optimizer_step "adamw" %[[N]], %[[DN]] {{.*}} by(%[[STEP]], %[[SCALE]], %[[FINITE]]) decayed 0
func.func @microstep(%step: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                     %f: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "f", graph.frozen},
                     %n: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "n", graph.no_decay}) attributes {graph.entry = #graph.entry<microstep>} {
  return
}
