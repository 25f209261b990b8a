// Folds and canonical forms of the ops that move data; none changes a bit of any value.
// RUN: ztc-opt %s -canonicalize -split-input-file | FileCheck %s

// CHECK-LABEL: func @reshapes
// CHECK-SAME: %[[X:.*]]: tensor<2x6xf32>
func.func @reshapes(%x: tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<4x3xf32>, tensor<2x6xf32>) {
  %0 = graph.reshape %x : tensor<2x6xf32> -> tensor<2x6xf32>
  %1 = graph.reshape %x : tensor<2x6xf32> -> tensor<12xf32>
  %2 = graph.reshape %1 : tensor<12xf32> -> tensor<4x3xf32>
  %3 = graph.reshape %1 : tensor<12xf32> -> tensor<2x6xf32>
  // CHECK-NEXT: %[[R:.*]] = graph.reshape %[[X]] : tensor<2x6xf32> -> tensor<4x3xf32>
  // CHECK-NEXT: return %[[X]], %[[R]], %[[X]]
  return %0, %2, %3 : tensor<2x6xf32>, tensor<4x3xf32>, tensor<2x6xf32>
}

// -----

// CHECK-LABEL: func @transposes
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<3x4x2xf32>, tensor<2x3x4xf32>) {
  %0 = graph.transpose %x, [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %1 = graph.transpose %x, [2, 0, 1] : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  %2 = graph.transpose %1, [2, 0, 1] : tensor<4x2x3xf32> -> tensor<3x4x2xf32>
  %3 = graph.transpose %1, [1, 2, 0] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
  // CHECK-NEXT: %[[T:.*]] = graph.transpose %[[X]], [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  // CHECK-NEXT: return %[[X]], %[[T]], %[[X]]
  return %0, %2, %3 : tensor<2x3x4xf32>, tensor<3x4x2xf32>, tensor<2x3x4xf32>
}

// -----

// A transpose that moves only ones is an alias.
// CHECK-LABEL: func @unit_transpose
// CHECK-SAME: %[[X:.*]]: tensor<2x1x4xf32>
func.func @unit_transpose(%x: tensor<2x1x4xf32>) -> tensor<1x2x4xf32> {
  %0 = graph.transpose %x, [1, 0, 2] : tensor<2x1x4xf32> -> tensor<1x2x4xf32>
  // CHECK-NEXT: %[[R:.*]] = graph.reshape %[[X]] : tensor<2x1x4xf32> -> tensor<1x2x4xf32>
  // CHECK-NEXT: return %[[R]]
  return %0 : tensor<1x2x4xf32>
}

// -----

// CHECK-LABEL: func @broadcasts
// CHECK-SAME: %[[X:.*]]: tensor<3xf32>
func.func @broadcasts(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<4x2x3xf32>) {
  %0 = graph.broadcast %x : tensor<3xf32> -> tensor<3xf32>
  %1 = graph.broadcast %x : tensor<3xf32> -> tensor<2x3xf32>
  %2 = graph.broadcast %1 : tensor<2x3xf32> -> tensor<4x2x3xf32>
  // CHECK-NEXT: %[[B:.*]] = graph.broadcast %[[X]] : tensor<3xf32> -> tensor<4x2x3xf32>
  // CHECK-NEXT: return %[[X]], %[[B]]
  return %0, %2 : tensor<3xf32>, tensor<4x2x3xf32>
}

// -----

// CHECK-LABEL: func @slices
// CHECK-SAME: %[[X:.*]]: tensor<8x3xf32>
func.func @slices(%x: tensor<8x3xf32>) -> (tensor<8x3xf32>, tensor<2x2xf32>) {
  %0 = graph.slice %x, [0, 0] : tensor<8x3xf32> -> tensor<8x3xf32>
  %1 = graph.slice %x, [2, 0] : tensor<8x3xf32> -> tensor<5x3xf32>
  %2 = graph.slice %1, [1, 1] : tensor<5x3xf32> -> tensor<2x2xf32>
  // CHECK-NEXT: %[[S:.*]] = graph.slice %[[X]], [3, 1] : tensor<8x3xf32> -> tensor<2x2xf32>
  // CHECK-NEXT: return %[[X]], %[[S]]
  return %0, %2 : tensor<8x3xf32>, tensor<2x2xf32>
}

// -----

// CHECK-LABEL: func @nothing_to_do
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>, %[[F:.*]]: tensor<2x3xi1>
func.func @nothing_to_do(%x: tensor<2x3xf32>, %f: tensor<2x3xi1>)
    -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = graph.pad %x, [0, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = graph.concat %x axis 1 : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = graph.cast %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = graph.select %f, %x, %x : tensor<2x3xi1>, tensor<2x3xf32>
  // CHECK-NEXT: return %[[X]], %[[X]], %[[X]], %[[X]]
  return %0, %1, %2, %3 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func @constants
func.func @constants() -> (tensor<2x2xf32>, tensor<4xf32>, tensor<2x2xbf16>, tensor<3x1xi32>) {
  %0 = graph.constant dense<0.1> : tensor<f32>
  %1 = graph.broadcast %0 : tensor<f32> -> tensor<2x2xf32>
  %2 = graph.transpose %1, [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
  %3 = graph.reshape %2 : tensor<2x2xf32> -> tensor<4xf32>
  %4 = graph.cast %1 : tensor<2x2xf32> -> tensor<2x2xbf16>
  %5 = graph.constant dense<[1, 2, 3]> : tensor<3xi32>
  %6 = graph.reshape %5 : tensor<3xi32> -> tensor<3x1xi32>
  // CHECK-DAG: %[[A:.*]] = graph.constant dense<1.000000e-01> : tensor<2x2xf32>
  // CHECK-DAG: %[[B:.*]] = graph.constant dense<1.000000e-01> : tensor<4xf32>
  // CHECK-DAG: %[[C:.*]] = graph.constant dense<1.000980e-01> : tensor<2x2xbf16>
  // CHECK-DAG: %[[D:.*]] = graph.constant dense<{{\[\[1\], \[2\], \[3\]\]}}> : tensor<3x1xi32>
  // CHECK: return %[[A]], %[[B]], %[[C]], %[[D]]
  return %2, %3, %4, %6 : tensor<2x2xf32>, tensor<4xf32>, tensor<2x2xbf16>, tensor<3x1xi32>
}

// -----

// A broadcast to a length that is not known stays what it is.
// CHECK-LABEL: func @flat
func.func @flat() -> tensor<?xf32> {
  // CHECK: %[[C:.*]] = graph.constant dense<1.000000e+00> : tensor<f32>
  // CHECK: graph.broadcast %[[C]] : tensor<f32> -> tensor<?xf32>
  %0 = graph.constant dense<1.0> : tensor<f32>
  %1 = graph.broadcast %0 : tensor<f32> -> tensor<?xf32>
  return %1 : tensor<?xf32>
}

// -----

// Equal values on both sides of a barrier stay apart.
// CHECK-LABEL: func @barrier
func.func @barrier(%x: tensor<3xf32>, %after: tensor<f32>) -> tensor<3xf32> {
  // CHECK: graph.recompute_barrier
  %0 = graph.recompute_barrier %x after %after : tensor<3xf32>, tensor<f32>
  return %0 : tensor<3xf32>
}
