// RUN: ztc-opt %s --ztc-plan-kernels | FileCheck %s

// Equal groups share a kernel; attention names its service kernels.
// CHECK-LABEL: func.func @eval
// CHECK:         graph.fusion "exp"{{.*}} attributes {plan.launches = [#kernel.schedule<kernel = @exp,
// CHECK:         graph.fusion "other"{{.*}} attributes {plan.launches = [#kernel.schedule<kernel = @exp,
// CHECK:         graph.attention {{.*}}plan.service_kernels = {softmax_kernel = @
func.func @eval(%x: tensor<1x8x1x4xf32>) -> tensor<1x8x1x4xf32> attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.fusion "exp"(%x) : (tensor<1x8x1x4xf32>) -> tensor<1x8x1x4xf32> {
  ^bb0(%v: tensor<1x8x1x4xf32>):
    %e = graph.exp %v : tensor<1x8x1x4xf32>
    graph.yield %e : tensor<1x8x1x4xf32>
  }
  %b = graph.fusion "other"(%a) : (tensor<1x8x1x4xf32>) -> tensor<1x8x1x4xf32> {
  ^bb0(%v: tensor<1x8x1x4xf32>):
    %e = graph.exp %v : tensor<1x8x1x4xf32>
    graph.yield %e : tensor<1x8x1x4xf32>
  }
  %c = graph.attention %a, %b, %b, 5.0e-1 {causal} : tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>
  return %c : tensor<1x8x1x4xf32>
}
