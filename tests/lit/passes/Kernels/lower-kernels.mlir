// RUN: ztc-opt %s --ztc-lower-kernels | FileCheck %s
// RUN: ztc-opt %s --ztc-lower-kernels | ztc-opt | FileCheck %s

// What a launch and a loop say of themselves arrives where LLVM reads it; the step itself is not looked at.
// CHECK:       func.func @eval
// CHECK:         arith.addf
// CHECK:       module @kernels
// CHECK:         llvm.func @doubled
// CHECK-SAME:      nvvm.kernel, nvvm.minctasm = 2 : i32, nvvm.reqntid = array<i32: 128>
// CHECK:           llvm.br {{.*}} {loop_annotation = #{{[a-z_]*}}}
func.func @eval(%x: f32) -> f32 attributes {graph.entry = #graph.entry<eval>} {
  %y = arith.addf %x, %x : f32
  return %y : f32
}
module @kernels {
  module @gpu {
    func.func @doubled(%x: !llvm.ptr<1>, %extent: i64) attributes {kernel.launch = #kernel.launch<threads = 128, units = 4, shared = 0, blocks = 2>} {
      %zero = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      scf.for %i = %zero to %extent step %one : i64 {
        %p = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
        %v = llvm.load %p : !llvm.ptr<1> -> f32
        %w = arith.addf %v, %v : f32
        llvm.store %w, %p : f32, !llvm.ptr<1>
      } {llvm.loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}
      return
    }
  }
}
