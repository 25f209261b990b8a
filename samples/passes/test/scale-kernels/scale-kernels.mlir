// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(ztc-form-kernels,scale-kernels{kernel=square by=0.5})' %s | FileCheck %s
// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(ztc-form-kernels,scale-kernels{kernel=square by=0.5},ztc-map-to-host,ztc-map-to-gpu)' %s | FileCheck %s --check-prefix=MAPPED
// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(ztc-form-kernels,scale-kernels{kernel=square by=0.5 call=1},ztc-verify-kernels{level=forms})' %s | FileCheck %s --check-prefix=OWN

// Both calls launch what is scaled. The product stands before the reshape: loops were chosen for what it reshapes.
// CHECK-LABEL: kernel.func @square
// CHECK-DAG:     %[[SQUARE:.*]] = graph.mul %{{.*}}, %{{.*}} : tensor<8x64xf32>
// CHECK-DAG:     %[[FACTOR:.*]] = graph.constant dense<5.000000e-01> : tensor<f32>
// CHECK:         %[[FACTORS:.*]] = graph.broadcast %[[FACTOR]]
// CHECK:         %[[SCALED:.*]] = graph.mul %[[SQUARE]], %[[FACTORS]]
// CHECK:         %[[RESULT:.*]] = graph.reshape %[[SCALED]]
// CHECK:         kernel.return %[[RESULT]]

// One rewrite, and both have it.
// MAPPED:      module @host
// MAPPED:        func.func @square
// MAPPED:          arith.mulf
// MAPPED:          arith.mulf
// MAPPED:      module @gpu
// MAPPED:        func.func @square
// MAPPED:          arith.mulf
// MAPPED:          arith.mulf

// The second call alone: it launches a kernel of its own.
// OWN:         graph.fusion "square"{{.*}}kernel = @square,
// OWN:         graph.fusion "again"{{.*}}kernel = @square_own,
// OWN-DAG:     plan.kernel @square "row"
// OWN-DAG:     plan.kernel @square_own "row"
// OWN-LABEL:   kernel.func @square(
// OWN-NOT:       graph.constant
// OWN-LABEL:   kernel.func @square_own(
// OWN:           graph.constant dense<5.000000e-01>
func.func @eval(%x: tensor<8x64xf32>) -> (tensor<2x4x64xf32>, tensor<2x4x64xf32>) attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.fusion "square"(%x) : (tensor<8x64xf32>) -> tensor<2x4x64xf32> {
  ^bb0(%v: tensor<8x64xf32>):
    %e = graph.mul %v, %v : tensor<8x64xf32>
    %r = graph.reshape %e : tensor<8x64xf32> -> tensor<2x4x64xf32>
    graph.yield %r : tensor<2x4x64xf32>
  }
  %b = graph.fusion "again"(%x) : (tensor<8x64xf32>) -> tensor<2x4x64xf32> {
  ^bb0(%v: tensor<8x64xf32>):
    %e = graph.mul %v, %v : tensor<8x64xf32>
    %r = graph.reshape %e : tensor<8x64xf32> -> tensor<2x4x64xf32>
    graph.yield %r : tensor<2x4x64xf32>
  }
  return %a, %b : tensor<2x4x64xf32>, tensor<2x4x64xf32>
}
