// RUN: ztc-opt %s --ztc-form-kernels --ztc-map-to-gpu --ztc-verify-kernels | FileCheck %s

// A kernel over blocks of rows reads its operands of a row, asks for those of the next one, which is at most the last, and only then waits at the barriers of
// its sum. Of 2048 columns each of 128 threads has 8 in two places of two operands.
// CHECK:         func.func @norm(%{{.*}}: !llvm.ptr<1>, %{{.*}}: !llvm.ptr<1>
// CHECK:         scf.for
// CHECK:           arith.minsi
// CHECK-COUNT-4:   llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xi32>
// CHECK-NOT:       llvm.load
// CHECK:           %[[A:.*]] = llvm.getelementptr %{{.*}} : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, bf16
// CHECK-NEXT:      llvm.inline_asm has_side_effects "prefetch.global.L2 [$0];", "l" %[[A]] : (!llvm.ptr<1>) -> ()
// CHECK-COUNT-3:   inline_asm
// CHECK-NOT:       inline_asm
// CHECK:           nvvm.barrier
func.func @eval(%x: tensor<64x2048xbf16>, %dy: tensor<64x2048xbf16>) -> (tensor<64x2048xbf16>, tensor<1x2048xf32>) attributes {graph.entry = #graph.entry<eval>} {
  %a:2 = graph.fusion "norm"(%x, %dy) : (tensor<64x2048xbf16>, tensor<64x2048xbf16>) -> (tensor<64x2048xbf16>, tensor<1x2048xf32>) {
  ^bb0(%v: tensor<64x2048xbf16>, %d: tensor<64x2048xbf16>):
    %w = graph.cast %v : tensor<64x2048xbf16> -> tensor<64x2048xf32>
    %g = graph.cast %d : tensor<64x2048xbf16> -> tensor<64x2048xf32>
    %p = graph.mul %w, %g : tensor<64x2048xf32>
    %s = graph.reduce_sum %p, [1] : tensor<64x2048xf32> -> tensor<64x1xf32>
    %r = graph.broadcast %s : tensor<64x1xf32> -> tensor<64x2048xf32>
    %y = graph.mul %r, %w : tensor<64x2048xf32>
    %n = graph.cast %y : tensor<64x2048xf32> -> tensor<64x2048xbf16>
    %c = graph.reduce_sum %p, [0] : tensor<64x2048xf32> -> tensor<1x2048xf32>
    graph.yield %n, %c : tensor<64x2048xbf16>, tensor<1x2048xf32>
  }
  return %a#0, %a#1 : tensor<64x2048xbf16>, tensor<1x2048xf32>
}
