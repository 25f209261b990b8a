// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(clamp-stores{limit=4.0})' %s | FileCheck %s

// CHECK-LABEL: func.func @wide
// CHECK:         %[[HIGH:.*]] = arith.constant dense<4.000000e+00> : vector<16xf32>
// CHECK:         arith.cmpf ogt, %{{.*}}, %[[HIGH]]
// CHECK:         arith.select
// CHECK:         %[[LOW:.*]] = arith.constant dense<-4.000000e+00> : vector<16xf32>
// CHECK:         arith.cmpf olt, %{{.*}}, %[[LOW]]
// CHECK:         %[[KEPT:.*]] = arith.select
// CHECK:         llvm.store %[[KEPT]]
// A narrow value is clamped before it is rounded.
// CHECK-LABEL: func.func @narrow
// CHECK:         arith.select
// CHECK:         arith.select
// CHECK-NEXT:    arith.truncf
// CHECK-NEXT:    llvm.store
module {
  module @kernels {
    module @host {
      func.func @wide(%to: !llvm.ptr, %x: vector<16xf32>) {
        llvm.store %x, %to : vector<16xf32>, !llvm.ptr
        return
      }
      func.func @narrow(%to: !llvm.ptr, %x: f32) {
        %y = arith.truncf %x : f32 to bf16
        llvm.store %y, %to : bf16, !llvm.ptr
        return
      }
    }
  }
}
