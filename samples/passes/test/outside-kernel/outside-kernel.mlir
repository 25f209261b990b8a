// RUN: echo "bytes" > %t.o
// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(ztc-form-kernels,outside-kernel{kernel=square object=%t.o ptx=%t.o simt=%t.o threads=64 units=2},ztc-map-to-host,ztc-map-to-gpu)' %s | FileCheck %s
// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(ztc-form-kernels,outside-kernel{kernel=square ptx=%t.o cubin=%t.o architecture=sm_80},ztc-map-to-gpu)' %s | FileCheck %s --check-prefix=ENGINE
// RUN: ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(ztc-form-kernels,outside-kernel{kernel=square object=%t.o},ztc-map-to-host,ztc-map-to-gpu)' %s | FileCheck %s --check-prefix=HOST
// RUN: not ztc-opt --load-pass-plugin=%plugin --pass-pipeline='builtin.module(ztc-form-kernels,outside-kernel{kernel=square object=%t.none})' %s 2>&1 | FileCheck %s --check-prefix=NONE

// NONE: cannot read {{.*}}.none
// The group says what the kernel means; neither mapping writes it.
// CHECK:       kernel.func @square
// CHECK-SAME:    objects = [#kernel.object<kind = host, data = dense_resource<square.host> : tensor<6xi8>, launches = []>, #kernel.object<kind = ptx, data = dense_resource<square.ptx> : tensor<6xi8>, launches = [#kernel.launch<threads = 64, units = 2, shared = 0, blocks = 0>]>, #kernel.object<kind = simt,
// CHECK:         graph.mul
// CHECK-NOT:   func.func @square

// Without an object for the engine that stands for GPUs it runs what is generated.
// ENGINE:      #kernel.object<kind = cubin, data = dense_resource<square.cubin.sm_80> : tensor<6xi8>, launches = [{{.*}}], architecture = "sm_80">
// ENGINE:      func.func @square

// HOST:        module @gpu
// HOST:          func.func @square
func.func @eval(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.fusion "square"(%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
  ^bb0(%v: tensor<8x64xf32>):
    %e = graph.mul %v, %v : tensor<8x64xf32>
    graph.yield %e : tensor<8x64xf32>
  }
  return %a : tensor<8x64xf32>
}
