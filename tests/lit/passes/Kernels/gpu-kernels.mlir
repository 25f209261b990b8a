// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v3" --ztc-map-to-host --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels="targets=x86-64-v3" --ztc-verify-codegen | FileCheck %s --check-prefix=HOST
// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v3,simt" --ztc-map-to-host --ztc-map-to-gpu --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels="targets=x86-64-v3,simt" --ztc-verify-codegen | FileCheck %s --check-prefix=BOTH
// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=simt" --ztc-map-to-gpu --ztc-expand-math --ztc-lower-kernels --ztc-compile-kernels="targets=simt" | FileCheck %s --check-prefix=GPU

// A library call names the kernels that a GPU executes for it where one of the targets is a GPU, and those of the host where one is a host.
// HOST-NOT: gpu_
// BOTH:     graph.embedding {{.*}}plan.service_kernels = {gpu_kernels = [@gpu_gather_8]}
// BOTH:     graph.attention {{.*}}plan.service_kernels = {gpu_kernels = [@gpu_attention_4], softmax_kernel = @[[SOFTMAX:attention_softmax]]
// BOTH-DAG: plan.kernel @gpu_gather_8 "service" [{block_threads = 128 : i64, image = @image.simt,
// BOTH-DAG: plan.kernel @[[SOFTMAX]] "service" [@"image.x86-64-v3"]
// GPU-NOT:  softmax
// GPU:      plan.kernel @gpu_gather_8 "service" [{block_threads = 128 : i64, image = @image.simt,
// GPU:      plan.kernel @gpu_attention_4 "service" [{block_threads = 128 : i64, image = @image.simt, {{.*}}units_per_block = 64
func.func @eval(%table: tensor<11x2xf32>, %ids: tensor<3xi32>, %q: tensor<1x8x1x4xf32>) -> (tensor<3x2xf32>, tensor<1x8x1x4xf32>) attributes {graph.entry = #graph.entry<eval>} {
  %rows = graph.embedding %table, %ids : tensor<11x2xf32>, tensor<3xi32> -> tensor<3x2xf32>
  %a = graph.attention %q, %q, %q, 5.0e-1 : tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>
  return %rows, %a : tensor<3x2xf32>, tensor<1x8x1x4xf32>
}
