// RUN: ztc-opt %s --ztc-duplicate-widenings --ztc-group-primitive-ops --ztc-verify-storage | FileCheck %s
// RUN: not ztc-opt %s --ztc-group-primitive-ops --ztc-verify-storage 2>&1 | FileCheck %s --check-prefix=WITHOUT
// WITHOUT: W1: writes an f32 copy of a narrow value, which graph.fusion reads

// What is stored is %x; both groups widen it.
// CHECK-LABEL: func.func @two_readers(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<8x16xbf16>
// CHECK:         graph.fusion "{{.*}}"(%[[X]])
// CHECK:           graph.cast %{{.*}} : tensor<8x16xbf16> -> tensor<8x16xf32>
// CHECK:           graph.exp
// CHECK:         graph.fusion "{{.*}}"(%[[X]])
// CHECK:           graph.cast %{{.*}} : tensor<8x16xbf16> -> tensor<8x16xf32>
// CHECK:           graph.log
func.func @two_readers(%x: tensor<8x16xbf16>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %w = graph.cast %x : tensor<8x16xbf16> -> tensor<8x16xf32>
  %y = graph.exp %w : tensor<8x16xf32>
  %z = graph.log %w : tensor<8x16xf32>
  return %y, %z : tensor<8x16xf32>, tensor<8x16xf32>
}
