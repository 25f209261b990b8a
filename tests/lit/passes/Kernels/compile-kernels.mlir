// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v3" --ztc-map-to-host --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels="targets=x86-64-v3" --ztc-verify-codegen | FileCheck %s
// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v3,simt" --ztc-map-to-host --ztc-map-to-gpu --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels="targets=x86-64-v3,simt" --ztc-verify-codegen | FileCheck %s --check-prefix=BLOCKS
// RUN: not ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=sm_12" --ztc-map-to-gpu --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels="targets=sm_12" 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// CHECK:   plan.image @"image.x86-64-v3" "x86-64-v3"
// CHECK:   plan.kernel @exp "{{.*}}" [@"image.x86-64-v3"]
// A row of four floats is one thread's work.
// BLOCKS:  plan.image @image.simt "simt"
// BLOCKS:  plan.kernel @exp "row" [@"image.x86-64-v3", {block_threads = 128 : i64, image = @image.simt, local_bytes = 0 : i64, registers = 0 : i64, shared_bytes = 0 : i64, units_per_block = 128 : i64, waits}]
// UNKNOWN: there is no code generation for target 'sm_12'; known are host, x86-64-v3, x86-64-v4, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_120a, sm_121a, simt
func.func @eval(%x: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.fusion "exp"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%v: tensor<8x4xf32>):
    %e = graph.exp %v : tensor<8x4xf32>
    graph.yield %e : tensor<8x4xf32>
  }
  return %a : tensor<8x4xf32>
}
