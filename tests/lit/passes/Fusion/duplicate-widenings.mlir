// RUN: ztc-opt %s --ztc-duplicate-widenings --ztc-duplicate-broadcasts --ztc-duplicate-slices --ztc-group-primitive-ops --ztc-verify-storage | FileCheck %s
// RUN: not ztc-opt %s --ztc-duplicate-broadcasts --ztc-group-primitive-ops --ztc-verify-storage 2>&1 | FileCheck %s --check-prefix=WITHOUT
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

// A routing weight that forward and backward repeat along the rows of an expert's result: what is repeated is narrow, and each group widens it.
// CHECK-LABEL: func.func @repeated(
// CHECK-SAME:    %[[X:[^:]*]]: tensor<4x2xbf16>
// CHECK:         %[[R:.*]] = graph.reshape %[[X]] : tensor<4x2xbf16> -> tensor<8x1xbf16>
// CHECK:         graph.fusion "{{.*}}"(%[[R]], %{{.*}}) {{.*}} -> tensor<8x16xbf16>
// CHECK:           graph.broadcast %{{.*}} : tensor<8x1xbf16> -> tensor<8x16xbf16>
// CHECK:           graph.cast %{{.*}} : tensor<8x16xbf16> -> tensor<8x16xf32>
// CHECK:         graph.fusion "{{.*}}"(%[[R]], %{{.*}}) {{.*}} -> tensor<8x16xbf16>
// CHECK:           graph.broadcast %{{.*}} : tensor<8x1xbf16> -> tensor<8x16xbf16>
func.func @repeated(%x: tensor<4x2xbf16>, %y: tensor<8x16xf32>, %z: tensor<8x16xf32>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>) {
  %w = graph.cast %x : tensor<4x2xbf16> -> tensor<4x2xf32>
  %r = graph.reshape %w : tensor<4x2xf32> -> tensor<8x1xf32>
  %b = graph.broadcast %r : tensor<8x1xf32> -> tensor<8x16xf32>
  %p = graph.mul %y, %b : tensor<8x16xf32>
  %q = graph.mul %z, %b : tensor<8x16xf32>
  %n = graph.cast %p : tensor<8x16xf32> -> tensor<8x16xbf16>
  %m = graph.cast %q : tensor<8x16xf32> -> tensor<8x16xbf16>
  return %n, %m : tensor<8x16xbf16>, tensor<8x16xbf16>
}

// A slice and a transpose of a widened value move the narrow one.
// CHECK-LABEL: func.func @moved(
// CHECK:         %[[T:.*]] = graph.fusion "{{.*}}"(%{{.*}}) {{.*}} -> tensor<16x8xbf16>
// CHECK:         graph.fusion "{{.*}}"(%[[T]])
// CHECK:           graph.exp
func.func @moved(%x: tensor<8x16xbf16>) -> (tensor<16x8xf32>, tensor<4x8xf32>) {
  %w = graph.cast %x : tensor<8x16xbf16> -> tensor<8x16xf32>
  %t = graph.transpose %w, [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32>
  %s = graph.slice %t, [2, 0] : tensor<16x8xf32> -> tensor<4x8xf32>
  %y = graph.exp %t : tensor<16x8xf32>
  %z = graph.log %s : tensor<4x8xf32>
  return %y, %z : tensor<16x8xf32>, tensor<4x8xf32>
}
