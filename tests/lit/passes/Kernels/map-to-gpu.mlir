// RUN: ztc-opt %s --ztc-form-kernels --ztc-map-to-gpu --ztc-verify-kernels | FileCheck %s
// RUN: ztc-opt %s --ztc-form-kernels --ztc-map-to-host --ztc-map-to-gpu | ztc-opt | FileCheck %s --check-prefix=BOTH

// A GPU's thread computes its own elements.
// CHECK-NOT:   module @host
// CHECK:         module @gpu
// CHECK:           func.func @scale(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>, %{{.*}}: i64)
// CHECK-SAME:        kernel.launch = #kernel.launch<threads = {{[0-9]+}}, units = {{[0-9]+}}, shared = 0, blocks = 0>
// CHECK-DAG:         nvvm.read.ptx.sreg.tid.x
// CHECK-DAG:         nvvm.read.ptx.sreg.ctaid.x
// CHECK:             arith.mulf

// One function of tensors is what both are made of.
// BOTH-COUNT-1: kernel.func @scale
// BOTH:         module @host
// BOTH:           func.func @scale
// BOTH:         module @gpu
// BOTH:           func.func @scale
func.func @eval(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.fusion "scale"(%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
  ^bb0(%v: tensor<8x64xf32>):
    %e = graph.mul %v, %v : tensor<8x64xf32>
    graph.yield %e : tensor<8x64xf32>
  }
  return %a : tensor<8x64xf32>
}
