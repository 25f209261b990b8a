// Round trip of the ops whose rows go to groups.
// RUN: ztc-opt %s | FileCheck %s

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<16x40xbf16>, %choices: tensor<16x2xi32>) -> tensor<16x40xbf16> {
  // CHECK: %[[ORDER:.*]], %[[PLACES:.*]], %[[STARTS:.*]] = graph.route %{{.*}} : tensor<16x2xi32> -> tensor<32xi32>, tensor<16x2xi32>, tensor<5xi32>
  %order, %places, %starts = graph.route %choices : tensor<16x2xi32> -> tensor<32xi32>, tensor<16x2xi32>, tensor<5xi32>
  // CHECK: graph.dispatch %{{.*}} by %[[ORDER]], %[[PLACES]] : tensor<16x40xbf16>, tensor<32xi32>, tensor<16x2xi32> -> tensor<32x40xbf16>
  %0 = graph.dispatch %x by %order, %places : tensor<16x40xbf16>, tensor<32xi32>, tensor<16x2xi32> -> tensor<32x40xbf16>
  // CHECK: graph.combine %{{.*}} by %[[ORDER]], %[[PLACES]] : tensor<32x40xbf16>, tensor<32xi32>, tensor<16x2xi32> -> tensor<16x40xbf16>
  %1 = graph.combine %0 by %order, %places : tensor<32x40xbf16>, tensor<32xi32>, tensor<16x2xi32> -> tensor<16x40xbf16>
  return %1 : tensor<16x40xbf16>
}

// CHECK-LABEL: func.func @products
func.func @products(%x: tensor<32x40xbf16>, %w: tensor<4x20x40xbf16>, %v: tensor<4x20x40xbf16>, %starts: tensor<5xi32>) -> tensor<4x20x40xf32> {
  // CHECK: graph.grouped_matmul %{{.*}}, %{{.*}} rows %{{.*}} {transpose_b} : tensor<32x40xbf16>, tensor<4x20x40xbf16>, tensor<5xi32> -> tensor<32x20xbf16>
  %0 = graph.grouped_matmul %x, %w rows %starts {transpose_b} : tensor<32x40xbf16>, tensor<4x20x40xbf16>, tensor<5xi32> -> tensor<32x20xbf16>
  // CHECK: graph.grouped_matmul %{{.*}}, %{{.*}} rows %{{.*}} : tensor<32x20xbf16>, tensor<4x20x40xbf16>, tensor<5xi32> -> tensor<32x40xbf16>
  %1 = graph.grouped_matmul %0, %v rows %starts : tensor<32x20xbf16>, tensor<4x20x40xbf16>, tensor<5xi32> -> tensor<32x40xbf16>
  // CHECK: graph.grouped_outer %{{.*}}, %{{.*}} rows %{{.*}} : tensor<32x20xbf16>, tensor<32x40xbf16>, tensor<5xi32> -> tensor<4x20x40xf32>
  %2 = graph.grouped_outer %0, %1 rows %starts : tensor<32x20xbf16>, tensor<32x40xbf16>, tensor<5xi32> -> tensor<4x20x40xf32>
  return %2 : tensor<4x20x40xf32>
}
