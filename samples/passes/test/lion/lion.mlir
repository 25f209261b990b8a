// RUN: ztc-opt --load-pass-plugin=%plugin --ztc-group-macro-ops %s | FileCheck %s
// RUN: not ztc-opt %s 2>&1 | FileCheck %s --check-prefix=WITHOUT

// WITHOUT: no optimizer 'lion' is registered

// The sign is one of three numbers; nothing changes where the gradients are not finite.
// CHECK-LABEL: func.func @update
// CHECK:         graph.fusion "optimizer_step"
// CHECK-COUNT-2: graph.compare
// CHECK-COUNT-2: graph.select
func.func @update(%p: tensor<8xf32>, %g: tensor<8xf32>, %m: tensor<8xf32>, %hyper: tensor<16xf32>, %scale: tensor<f32>, %proceed: tensor<i1>)
    -> (tensor<8xf32>, tensor<8xf32>) {
  %0, %1 = graph.optimizer_step "lion" %p, %g keeps(%m) by(%hyper, %scale, %proceed) decayed 8
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
