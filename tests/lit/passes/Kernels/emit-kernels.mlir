// RUN: ztc-opt %s --ztc-emit-kernels="targets=x86-64-v3" --ztc-verify-codegen | FileCheck %s
// RUN: not ztc-opt %s --ztc-emit-kernels="targets=sm_90a" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK:   plan.image @"image.x86-64-v3" "x86-64-v3"
// CHECK:   plan.kernel @exp "{{.*}}" [@"image.x86-64-v3"]
// UNKNOWN: there is no code generation for target 'sm_90a'; known are host, x86-64-v3, x86-64-v4
func.func @eval(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = graph.fusion "exp"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%v: tensor<8x4xf32>):
    %e = graph.exp %v : tensor<8x4xf32>
    graph.yield %e : tensor<8x4xf32>
  }
  return %a : tensor<8x4xf32>
}
