// RUN: ztc-opt %s --ztc-expand-orthogonalizations | FileCheck %s

// Five steps of three products; the norm is rounded, and where something is added to a product the sum is rounded once.
// CHECK-LABEL: func.func @wide
// CHECK:         graph.reduce_sum
// CHECK:         graph.sqrt
// CHECK:         %[[X:.*]] = graph.cast {{.*}} : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-NEXT:    %[[A:.*]] = graph.matmul %[[X]], %[[X]] {transpose_b} : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x4xbf16>
// CHECK-NEXT:    graph.matmul %[[A]], %[[A]] : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xf32>
// CHECK:         %[[B:.*]] = graph.cast {{.*}} : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK-NEXT:    graph.matmul %[[B]], %[[X]] : tensor<4x4xbf16>, tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK-COUNT-12: graph.matmul
// CHECK-NOT:     graph.matmul
func.func @wide(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %y = graph.orthogonalize %x : tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// More rows than columns: from the right.
// CHECK-LABEL: func.func @tall
// CHECK:         %[[X:.*]] = graph.cast {{.*}} : tensor<8x4xf32> -> tensor<8x4xbf16>
// CHECK-NEXT:    graph.matmul %[[X]], %[[X]] {transpose_a} : tensor<8x4xbf16>, tensor<8x4xbf16> -> tensor<4x4xbf16>
// CHECK:         graph.matmul %[[X]], %{{.*}} : tensor<8x4xbf16>, tensor<4x4xbf16> -> tensor<8x4xf32>
func.func @tall(%x: tensor<8x4xbf16>) -> tensor<8x4xbf16> {
  %y = graph.orthogonalize %x : tensor<8x4xbf16>
  return %y : tensor<8x4xbf16>
}

// A stack of matrices: batches, each with its own norm.
// CHECK-LABEL: func.func @stack
// CHECK:         graph.sqrt {{.*}} : tensor<3x1xf32>
// CHECK:         graph.matmul {{.*}} {transpose_b} : tensor<3x4x8xbf16>, tensor<3x4x8xbf16> -> tensor<3x4x4xbf16>
func.func @stack(%x: tensor<3x4x8xbf16>) -> tensor<3x4x8xbf16> {
  %y = graph.orthogonalize %x : tensor<3x4x8xbf16>
  return %y : tensor<3x4x8xbf16>
}
