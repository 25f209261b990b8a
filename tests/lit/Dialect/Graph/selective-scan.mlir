// Round trip of the selective scan and its gradient, and what they cost.
// RUN: ztc-opt %s | FileCheck %s

// CHECK-LABEL: func.func @scan
func.func @scan(%v: tensor<2x40x80xf32>, %rate: tensor<6x80xf32>, %b: tensor<2x40x6xf32>, %dy: tensor<2x40x80xf32>) -> tensor<2x6x80xf32> {
  // CHECK: %[[Y:.*]], %[[STATES:.*]] = graph.selective_scan %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {chunk = 32 : i64} : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  %y, %states = graph.selective_scan %v, %v, %rate, %b, %b {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32> -> tensor<2x40x80xf32>, tensor<2x2x6x80xf32>
  // CHECK: graph.selective_scan_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[STATES]], %{{.*}} {chunk = 32 : i64} : {{.*}} -> tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<2x6x80xf32>, tensor<2x2x40x6xf32>, tensor<2x2x40x6xf32>
  %dv, %ddelta, %drate, %db, %dc = graph.selective_scan_grad %v, %v, %rate, %b, %b, %states, %dy {chunk = 32 : i64}
    : tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<6x80xf32>, tensor<2x40x6xf32>, tensor<2x40x6xf32>, tensor<2x2x6x80xf32>, tensor<2x40x80xf32>
    -> tensor<2x40x80xf32>, tensor<2x40x80xf32>, tensor<2x6x80xf32>, tensor<2x2x40x6xf32>, tensor<2x2x40x6xf32>
  return %drate : tensor<2x6x80xf32>
}

// CHECK-LABEL: func.func @documents
func.func @documents(%v: tensor<1x8x16xf32>, %rate: tensor<2x16xf32>, %b: tensor<1x8x2xf32>, %starts: tensor<1x8xi32>) -> tensor<1x8x16xf32> {
  // CHECK: graph.selective_scan %{{.*}} within %{{.*}} : tensor<1x8xi32> {chunk = 8 : i64}
  %y, %states = graph.selective_scan %v, %v, %rate, %b, %b within %starts : tensor<1x8xi32> {chunk = 8 : i64}
    : tensor<1x8x16xf32>, tensor<1x8x16xf32>, tensor<2x16xf32>, tensor<1x8x2xf32>, tensor<1x8x2xf32> -> tensor<1x8x16xf32>, tensor<1x1x2x16xf32>
  return %y : tensor<1x8x16xf32>
}
