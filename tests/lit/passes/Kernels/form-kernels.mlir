// RUN: ztc-opt %s --ztc-form-kernels --ztc-verify-kernels=level=forms | FileCheck %s
// RUN: ztc-opt %s --ztc-form-kernels | ztc-opt | FileCheck %s

// Equal groups share one function of tensors; the groups stay at their calls.
// CHECK-LABEL: func.func @eval
// CHECK:         graph.fusion "scale"{{.*}}plan.launches = [#kernel.schedule<kernel = @scale, form = row, extent = 8,
// CHECK:         graph.fusion "again"{{.*}}plan.launches = [#kernel.schedule<kernel = @scale, form = row, extent = 8,
// CHECK:         graph.fusion "bias"{{.*}}plan.launches = [#kernel.schedule<kernel = @bias, form = column_reduce, {{.*}}>, #kernel.schedule<kernel = @bias_fold, form = fold
// CHECK:       plan.kernel @scale "row" []
// CHECK:       plan.kernel @bias "column_reduce" []
// CHECK:       plan.kernel @bias_fold "fold" []
// CHECK:       plan.kernel @bias_fold__add "fold" []
// CHECK:       module @kernels
// CHECK:         module @forms
// CHECK:           kernel.func @scale(%[[X:.*]]: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {schedules = [#kernel.schedule<kernel = @scale, form = row,
// CHECK:             %[[Y:.*]] = graph.mul %[[X]], %[[X]] : tensor<8x64xf32>
// CHECK:             kernel.return %[[Y]] : tensor<8x64xf32>
// CHECK-NOT:       kernel.func @again
// One function for both kernels of a group, of which one also adds to what its result holds.
// CHECK:           kernel.func @bias(%{{.*}}: tensor<8x64xf32>) -> tensor<1x64xf32>
// CHECK-SAME:        has_add = 0
// CHECK-SAME:        #kernel.schedule<kernel = @bias_fold, {{.*}}has_add = 1
// CHECK-SAME:        workspace_bytes = 256
// CHECK-NOT:     module @host
// CHECK-NOT:     module @gpu
func.func @eval(%x: tensor<8x64xf32>, %sum: tensor<1x64xf32>) -> (tensor<8x64xf32>, tensor<1x64xf32>) attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.fusion "scale"(%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
  ^bb0(%v: tensor<8x64xf32>):
    %e = graph.mul %v, %v : tensor<8x64xf32>
    graph.yield %e : tensor<8x64xf32>
  }
  %b = graph.fusion "again"(%a) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
  ^bb0(%v: tensor<8x64xf32>):
    %e = graph.mul %v, %v : tensor<8x64xf32>
    graph.yield %e : tensor<8x64xf32>
  }
  %c = graph.fusion "bias"(%b) : (tensor<8x64xf32>) -> tensor<1x64xf32> {
  ^bb0(%v: tensor<8x64xf32>):
    %s = graph.reduce_sum %v, [0] : tensor<8x64xf32> -> tensor<1x64xf32>
    graph.yield %s : tensor<1x64xf32>
  }
  %d = graph.accumulate %sum, %c : tensor<1x64xf32>
  return %b, %d : tensor<8x64xf32>, tensor<1x64xf32>
}
