// RUN: ztc-opt --load-pass-plugin=%plugin --ztc-group-macro-ops %s | FileCheck %s
// RUN: not ztc-opt %s 2>&1 | FileCheck %s --check-prefix=WITHOUT

// WITHOUT: no optimizer 'adagrad' is registered

// The sum of squares grows; nothing changes where the gradients are not finite.
// CHECK-LABEL: func.func @update
// CHECK:         graph.fusion "adagrad"
// CHECK:         graph.sqrt
// CHECK-COUNT-2: graph.select
func.func @update(%p: tensor<8xf32>, %g: tensor<8xf32>, %s: tensor<8xf32>, %hyper: tensor<20xf32>, %scale: tensor<f32>, %proceed: tensor<i1>)
    -> (tensor<8xf32>, tensor<8xf32>) attributes {graph.entry = #graph.entry<update>} {
  %0, %1 = graph.optimizer_step "adagrad" %p, %g keeps(%s) by(%hyper, %scale, %proceed) decayed 8
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
