// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels=targets=x86-64-v3,simt --ztc-verify-kernels=level=forms | FileCheck %s

// Library calls name kernels that are written at once for processors and for GPUs: they have no form.
// CHECK:       graph.attention {{.*}}plan.service_kernels = {gpu_kernels = [@gpu_attention_4], softmax_kernel = @[[SOFTMAX:attention_softmax]]
// CHECK:       plan.kernel @[[SOFTMAX]] "service" []
// CHECK:       plan.kernel @gpu_attention_4 "service" []
// CHECK:       module @kernels
// CHECK-NOT:     kernel.func
// CHECK:         module @host
// CHECK:           func.func @[[SOFTMAX]]
// CHECK:           func.func @attention_softmax_causal_softcap
// CHECK:         module @gpu
// CHECK:           func.func @gpu_attention_4{{.*}}kernel.launch
// CHECK:           func.func @gpu_attention_4_causal_softcap
func.func @eval(%q: tensor<1x8x1x4xf32>) -> tensor<1x8x1x4xf32> attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.attention %q, %q, %q, 5.0e-1 : tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>
  return %a : tensor<1x8x1x4xf32>
}

// Scores that are capped have kernels of their own, which are given the cap.
func.func @capped(%q: tensor<1x8x1x4xf32>) -> tensor<1x8x1x4xf32> {
  %a = graph.attention %q, %q, %q, 5.0e-1 {causal, softcap = 50.0} : tensor<1x8x1x4xf32>, tensor<1x8x1x4xf32>
  return %a : tensor<1x8x1x4xf32>
}
