// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(kernel-counts)' %s -o /dev/null | FileCheck %s

// CHECK:      host {{ *}}doubled {{ *}}1 arithmetic {{ *}}1 loads {{ *}}1 stores {{ *}}0 barriers
// CHECK-NEXT: gpu {{ *}}doubled {{ *}}2 arithmetic {{ *}}1 loads {{ *}}1 stores {{ *}}1 barriers
module {
  module @kernels {
    module @host {
      func.func @doubled(%from: !llvm.ptr, %to: !llvm.ptr) {
        %x = llvm.load %from : !llvm.ptr -> f32
        %y = arith.addf %x, %x : f32
        llvm.store %y, %to : f32, !llvm.ptr
        return
      }
    }
    module @gpu {
      func.func @doubled(%from: !llvm.ptr<1>, %to: !llvm.ptr<1>) {
        %two = arith.constant 2.0 : f32
        %x = llvm.load %from : !llvm.ptr<1> -> f32
        %y = arith.mulf %x, %two : f32
        %z = arith.negf %y : f32
        nvvm.barrier0
        llvm.store %z, %to : f32, !llvm.ptr<1>
        return
      }
    }
  }
}
