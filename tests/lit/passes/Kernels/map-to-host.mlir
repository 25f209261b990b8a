// RUN: ztc-opt %s --ztc-form-kernels --ztc-map-to-host --ztc-verify-kernels | FileCheck %s
// RUN: ztc-opt %s --ztc-form-kernels --ztc-map-to-host | ztc-opt | FileCheck %s

// A processor's kernel computes chunks of a row; the step's group and the form stay as they are.
// CHECK:       graph.fusion "scale"
// CHECK:       plan.kernel @scale "row" []
// CHECK:       module @kernels
// CHECK:         kernel.func @scale
// CHECK:         kernel.func @root
// CHECK:         module @host
// CHECK:           func.func @scale(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK:             scf.for %{{.*}} = %[[BEGIN]] to %[[END]]
// CHECK:               arith.mulf {{.*}} : vector<16xf32>
// An elementary function is an op of math, in f32 whatever it is stored as.
// CHECK:           func.func @root
// CHECK:             math.rsqrt {{.*}} : vector<16xf32>
// CHECK:             math.tanh {{.*}} : vector<16xf32>
// CHECK-NOT:     module @gpu
func.func @eval(%x: tensor<8x64xf32>, %y: tensor<8x64xbf16>) -> (tensor<8x64xf32>, tensor<8x64xbf16>) attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.fusion "scale"(%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
  ^bb0(%v: tensor<8x64xf32>):
    %e = graph.mul %v, %v : tensor<8x64xf32>
    graph.yield %e : tensor<8x64xf32>
  }
  %b = graph.fusion "root"(%y) : (tensor<8x64xbf16>) -> tensor<8x64xbf16> {
  ^bb0(%v: tensor<8x64xbf16>):
    %r = graph.rsqrt %v : tensor<8x64xbf16>
    %t = graph.tanh %r : tensor<8x64xbf16>
    graph.yield %t : tensor<8x64xbf16>
  }
  return %a, %b : tensor<8x64xf32>, tensor<8x64xbf16>
}
