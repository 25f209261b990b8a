// RUN: not ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=simt" --ztc-map-to-gpu --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels="targets=simt" 2>&1 | FileCheck %s
// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v3" --ztc-map-to-host --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels="targets=x86-64-v3" > /dev/null

// CHECK: error: 'graph.attention' op there is no attention kernel for a GPU with heads of 516 elements, the most are 512; compile for the host alone (--target=host)
func.func @eval(%q: tensor<1x8x1x516xf32>) -> tensor<1x8x1x516xf32> attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.attention %q, %q, %q, 5.0e-1 : tensor<1x8x1x516xf32>, tensor<1x8x1x516xf32>
  return %a : tensor<1x8x1x516xf32>
}
