// RUN: ztc-opt %s --ztc-group-gathered-products --split-input-file | FileCheck %s

// Two products of one choice, a matrix times a column and a row times a matrix: rows are put into the order of the matrices once, from the tokens, two choices each;
// what is made of them row by row stays in it, and no matrix is copied.
// CHECK-LABEL: func.func @forward
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<3x4xf32>
// CHECK:         %[[ORDER:.*]], %[[PLACES:.*]], %[[STARTS:.*]] = graph.route %{{.*}} : tensor<6x1xi32> -> tensor<6xi32>, tensor<6x1xi32>, tensor<4xi32>
// CHECK:         %[[ROWS:.*]] = graph.dispatch %{{.*}} by %[[ORDER]], %{{.*}} : tensor<3x4xf32>, tensor<6xi32>, tensor<3x2xi32> -> tensor<6x4xf32>
// CHECK:         %[[H:.*]] = graph.grouped_matmul %[[ROWS]], %{{.*}} rows %[[STARTS]] {transpose_b} : tensor<6x4xf32>, tensor<3x8x4xf32>
// CHECK-NOT:     graph.dispatch
// CHECK:         %[[T:.*]] = graph.tanh
// CHECK:         graph.mul %[[T]], %{{.*}} : tensor<6x8xf32>
// CHECK:         %[[Z:.*]] = graph.grouped_matmul %{{.*}}, %{{.*}} rows %[[STARTS]] : tensor<6x8xf32>, tensor<3x8x4xf32>
// CHECK:         %[[Y:.*]] = graph.combine %[[Z]] by %[[ORDER]], %[[PLACES]]
// CHECK-NOT:     graph.embedding
// CHECK:         graph.reshape %[[Y]] : tensor<6x4xf32> -> tensor<6x1x4xf32>
func.func @forward(%x: tensor<3x4xf32>, %choice: tensor<6xi32>, %a: tensor<3x8x4xf32>, %b: tensor<3x8x4xf32>) -> tensor<6x1x4xf32> {
  %fa = graph.reshape %a : tensor<3x8x4xf32> -> tensor<3x32xf32>
  %la = graph.embedding %fa, %choice : tensor<3x32xf32>, tensor<6xi32> -> tensor<6x32xf32>
  %ma = graph.reshape %la : tensor<6x32xf32> -> tensor<6x8x4xf32>
  %one = graph.reshape %x : tensor<3x4xf32> -> tensor<3x1x4xf32>
  %each = graph.broadcast %one : tensor<3x1x4xf32> -> tensor<3x2x4xf32>
  %column = graph.reshape %each : tensor<3x2x4xf32> -> tensor<6x4x1xf32>
  %h = graph.matmul %ma, %column : tensor<6x8x4xf32>, tensor<6x4x1xf32> -> tensor<6x8x1xf32>
  %rows = graph.reshape %h : tensor<6x8x1xf32> -> tensor<6x8xf32>
  %t = graph.tanh %rows : tensor<6x8xf32>
  %half = graph.constant dense<0.5> : tensor<6x8xf32>
  %s = graph.mul %t, %half : tensor<6x8xf32>
  %fb = graph.reshape %b : tensor<3x8x4xf32> -> tensor<3x32xf32>
  %lb = graph.embedding %fb, %choice : tensor<3x32xf32>, tensor<6xi32> -> tensor<6x32xf32>
  %mb = graph.reshape %lb : tensor<6x32xf32> -> tensor<6x8x4xf32>
  %row = graph.reshape %s : tensor<6x8xf32> -> tensor<6x1x8xf32>
  %y = graph.matmul %row, %mb : tensor<6x1x8xf32>, tensor<6x8x4xf32> -> tensor<6x1x4xf32>
  return %y : tensor<6x1x4xf32>
}

// -----

// Several rows times one matrix, and matrices that are not looked up: nothing changes.
// CHECK-LABEL: func.func @forward
// CHECK-NOT:     graph.route
// CHECK:         return
func.func @forward(%x: tensor<6x2x4xf32>, %choice: tensor<6xi32>, %a: tensor<3x32xf32>, %b: tensor<6x8x4xf32>, %v: tensor<6x4x1xf32>) -> (tensor<6x2x8xf32>, tensor<6x8x1xf32>) {
  %la = graph.embedding %a, %choice : tensor<3x32xf32>, tensor<6xi32> -> tensor<6x32xf32>
  %ma = graph.reshape %la : tensor<6x32xf32> -> tensor<6x8x4xf32>
  %y = graph.matmul %x, %ma {transpose_b} : tensor<6x2x4xf32>, tensor<6x8x4xf32> -> tensor<6x2x8xf32>
  %z = graph.matmul %b, %v : tensor<6x8x4xf32>, tensor<6x4x1xf32> -> tensor<6x8x1xf32>
  return %y, %z : tensor<6x2x8xf32>, tensor<6x8x1xf32>
}

// -----

// Dropout asks which row it is at: the rows between two products go back to their places for it.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[ORDER:.*]], %[[PLACES:.*]], %{{.*}} = graph.route
// CHECK:         graph.grouped_matmul
// CHECK:         %[[BACK:.*]] = graph.combine %{{.*}} by %[[ORDER]], %[[PLACES]]
// CHECK:         graph.dropout
// CHECK:         graph.dispatch %{{.*}} by %[[ORDER]], %[[PLACES]]
// CHECK:         graph.grouped_matmul
func.func @forward(%x: tensor<6x4x1xf32>, %choice: tensor<6xi32>, %a: tensor<3x16xf32>) -> tensor<6x4x1xf32> {
  %l = graph.embedding %a, %choice : tensor<3x16xf32>, tensor<6xi32> -> tensor<6x16xf32>
  %m = graph.reshape %l : tensor<6x16xf32> -> tensor<6x4x4xf32>
  %h = graph.matmul %m, %x : tensor<6x4x4xf32>, tensor<6x4x1xf32> -> tensor<6x4x1xf32>
  %rows = graph.reshape %h : tensor<6x4x1xf32> -> tensor<6x4xf32>
  %d = graph.dropout %rows {module = "experts", probability = 0.5} : tensor<6x4xf32>
  %column = graph.reshape %d : tensor<6x4xf32> -> tensor<6x4x1xf32>
  %y = graph.matmul %m, %column : tensor<6x4x4xf32>, tensor<6x4x1xf32> -> tensor<6x4x1xf32>
  return %y : tensor<6x4x1xf32>
}
