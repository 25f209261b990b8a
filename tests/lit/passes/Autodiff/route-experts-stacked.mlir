// Experts that compute as one tensor: each reads its own part of the stacks of matrices, which the products of the chosen rows read as they are.
// RUN: ztc-opt %s --ztc-route-experts --split-input-file | FileCheck %s
// RUN: ztc-opt %s --ztc-route-experts --split-input-file --remarks-filter=ztc-route-experts 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK: [Passed] mixture {{.*}}Function=batched
// REMARK: [Passed] mixture {{.*}}Function=einsum
// REMARK: [Missed] mixture {{.*}}Function=threshold
// REMARK: warning: each token chose some experts, and all of them compute it: the results of all experts, as one tensor, are multiplied with shares
// REMARK: [Missed] mixture {{.*}}Function=gathered{{.*}}the results of the chosen ones are looked up among those of all

// CHECK-LABEL: func.func @batched
// CHECK-SAME:    %[[A:[a-z0-9]+]]: tensor<3x4x8xf32> {{.*}}, %[[B:[a-z0-9]+]]: tensor<3x8x4xf32>
// CHECK:         graph.dispatch
// CHECK:         graph.grouped_matmul %{{.*}}, %[[A]] rows
// CHECK:         graph.grouped_matmul %{{.*}}, %[[B]] rows
// CHECK-NOT:     graph.matmul
// CHECK:         graph.combine
func.func @batched(%x: tensor<4x4xf32>, %logits: tensor<4x3xf32>, %a: tensor<3x4x8xf32> {graph.role = #graph.role<parameter>}, %b: tensor<3x8x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %iota = graph.iota 1 : tensor<4x3xi32>
  %place = graph.cast %iota : tensor<4x3xi32> -> tensor<4x3xf32>
  %end = graph.constant dense<2.0> : tensor<4x3xf32>
  %none = graph.constant dense<-1.0> : tensor<4x3xf32>
  %low = graph.constant dense<0xFF800000> : tensor<4x3xf32>
  %ends = graph.constant dense<2.0> : tensor<4x1xf32>
  %back = graph.sub %end, %place : tensor<4x3xf32>
  %m0 = graph.reduce_max %logits, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %mm0 = graph.broadcast %m0 : tensor<4x1xf32> -> tensor<4x3xf32>
  %eq0 = graph.compare eq, %logits, %mm0 : tensor<4x3xf32> -> tensor<4x3xi1>
  %sel0 = graph.select %eq0, %back, %none : tensor<4x3xi1>, tensor<4x3xf32>
  %r0 = graph.reduce_max %sel0, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %at0 = graph.sub %ends, %r0 : tensor<4x1xf32>
  %c0 = graph.cast %at0 : tensor<4x1xf32> -> tensor<4x1xi32>
  %zeros = graph.constant dense<0.0> : tensor<4x3xf32>
  %e = graph.broadcast %c0 : tensor<4x1xi32> -> tensor<4x3xi32>
  %is = graph.compare eq, %e, %iota : tensor<4x3xi32> -> tensor<4x3xi1>
  %all = graph.select %is, %logits, %zeros : tensor<4x3xi1>, tensor<4x3xf32>
  %x1 = graph.reshape %x : tensor<4x4xf32> -> tensor<1x4x4xf32>
  %xs = graph.broadcast %x1 : tensor<1x4x4xf32> -> tensor<3x4x4xf32>
  %h = graph.matmul %xs, %a : tensor<3x4x4xf32>, tensor<3x4x8xf32> -> tensor<3x4x8xf32>
  %t = graph.tanh %h : tensor<3x4x8xf32>
  %y = graph.matmul %t, %b : tensor<3x4x8xf32>, tensor<3x8x4xf32> -> tensor<3x4x4xf32>
  %turned = graph.transpose %all, [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
  %column = graph.reshape %turned : tensor<3x4xf32> -> tensor<3x4x1xf32>
  %each = graph.broadcast %column : tensor<3x4x1xf32> -> tensor<3x4x4xf32>
  %z = graph.mul %y, %each : tensor<3x4x4xf32>
  %sum = graph.reduce_sum %z, [0] : tensor<3x4x4xf32> -> tensor<1x4x4xf32>
  %r = graph.reshape %sum : tensor<1x4x4xf32> -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// Matrices beside each other, and a product with the shares of each token.
// CHECK-LABEL: func.func @einsum
// CHECK-SAME:    %[[A:[a-z0-9]+]]: tensor<3x4x8xf32> {{.*}}, %[[B:[a-z0-9]+]]: tensor<3x8x4xf32>
// CHECK:         graph.grouped_matmul %{{.*}}, %[[A]] rows
// CHECK:         graph.grouped_matmul %{{.*}}, %[[B]] rows
// CHECK-NOT:     graph.matmul
// CHECK:         graph.combine
func.func @einsum(%x: tensor<4x4xf32>, %logits: tensor<4x3xf32>, %a: tensor<3x4x8xf32> {graph.role = #graph.role<parameter>}, %b: tensor<3x8x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %iota = graph.iota 1 : tensor<4x3xi32>
  %place = graph.cast %iota : tensor<4x3xi32> -> tensor<4x3xf32>
  %end = graph.constant dense<2.0> : tensor<4x3xf32>
  %none = graph.constant dense<-1.0> : tensor<4x3xf32>
  %low = graph.constant dense<0xFF800000> : tensor<4x3xf32>
  %ends = graph.constant dense<2.0> : tensor<4x1xf32>
  %back = graph.sub %end, %place : tensor<4x3xf32>
  %m0 = graph.reduce_max %logits, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %mm0 = graph.broadcast %m0 : tensor<4x1xf32> -> tensor<4x3xf32>
  %eq0 = graph.compare eq, %logits, %mm0 : tensor<4x3xf32> -> tensor<4x3xi1>
  %sel0 = graph.select %eq0, %back, %none : tensor<4x3xi1>, tensor<4x3xf32>
  %r0 = graph.reduce_max %sel0, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %at0 = graph.sub %ends, %r0 : tensor<4x1xf32>
  %c0 = graph.cast %at0 : tensor<4x1xf32> -> tensor<4x1xi32>
  %zeros = graph.constant dense<0.0> : tensor<4x3xf32>
  %e = graph.broadcast %c0 : tensor<4x1xi32> -> tensor<4x3xi32>
  %is = graph.compare eq, %e, %iota : tensor<4x3xi32> -> tensor<4x3xi1>
  %all = graph.select %is, %logits, %zeros : tensor<4x3xi1>, tensor<4x3xf32>
  %at = graph.transpose %a, [1, 0, 2] : tensor<3x4x8xf32> -> tensor<4x3x8xf32>
  %beside = graph.reshape %at : tensor<4x3x8xf32> -> tensor<4x24xf32>
  %h = graph.matmul %x, %beside : tensor<4x4xf32>, tensor<4x24xf32> -> tensor<4x24xf32>
  %h3 = graph.reshape %h : tensor<4x24xf32> -> tensor<4x3x8xf32>
  %t = graph.tanh %h3 : tensor<4x3x8xf32>
  %turned = graph.transpose %t, [1, 0, 2] : tensor<4x3x8xf32> -> tensor<3x4x8xf32>
  %y = graph.matmul %turned, %b : tensor<3x4x8xf32>, tensor<3x8x4xf32> -> tensor<3x4x4xf32>
  %ordered = graph.transpose %y, [1, 0, 2] : tensor<3x4x4xf32> -> tensor<4x3x4xf32>
  %column = graph.reshape %all : tensor<4x3xf32> -> tensor<4x3x1xf32>
  %z = graph.matmul %ordered, %column {transpose_a} : tensor<4x3x4xf32>, tensor<4x3x1xf32> -> tensor<4x4x1xf32>
  %r = graph.reshape %z : tensor<4x4x1xf32> -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// Shares of those that are as large as the K-th largest: more than K may be. Nothing changes, and a warning says so.
// CHECK-LABEL: func.func @threshold
// CHECK-NOT:     graph.route
// CHECK:         graph.reduce_sum %{{.*}}, [0]
// CHECK:         return
func.func @threshold(%x: tensor<4x4xf32>, %logits: tensor<4x3xf32>, %a: tensor<3x4x8xf32> {graph.role = #graph.role<parameter>}, %b: tensor<3x8x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %iota = graph.iota 1 : tensor<4x3xi32>
  %place = graph.cast %iota : tensor<4x3xi32> -> tensor<4x3xf32>
  %end = graph.constant dense<2.0> : tensor<4x3xf32>
  %none = graph.constant dense<-1.0> : tensor<4x3xf32>
  %low = graph.constant dense<0xFF800000> : tensor<4x3xf32>
  %ends = graph.constant dense<2.0> : tensor<4x1xf32>
  %back = graph.sub %end, %place : tensor<4x3xf32>
  %m0 = graph.reduce_max %logits, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %mm0 = graph.broadcast %m0 : tensor<4x1xf32> -> tensor<4x3xf32>
  %eq0 = graph.compare eq, %logits, %mm0 : tensor<4x3xf32> -> tensor<4x3xi1>
  %sel0 = graph.select %eq0, %back, %none : tensor<4x3xi1>, tensor<4x3xf32>
  %r0 = graph.reduce_max %sel0, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %at0 = graph.sub %ends, %r0 : tensor<4x1xf32>
  %c0 = graph.cast %at0 : tensor<4x1xf32> -> tensor<4x1xi32>
  %zeros = graph.constant dense<0.0> : tensor<4x3xf32>
  %b0 = graph.broadcast %at0 : tensor<4x1xf32> -> tensor<4x3xf32>
  %hit = graph.compare eq, %place, %b0 : tensor<4x3xf32> -> tensor<4x3xi1>
  %only = graph.select %hit, %logits, %zeros : tensor<4x3xi1>, tensor<4x3xf32>
  %least = graph.reduce_sum %only, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %bound = graph.broadcast %least : tensor<4x1xf32> -> tensor<4x3xf32>
  %is = graph.compare ge, %logits, %bound : tensor<4x3xf32> -> tensor<4x3xi1>
  %all = graph.select %is, %logits, %zeros : tensor<4x3xi1>, tensor<4x3xf32>
  %x1 = graph.reshape %x : tensor<4x4xf32> -> tensor<1x4x4xf32>
  %xs = graph.broadcast %x1 : tensor<1x4x4xf32> -> tensor<3x4x4xf32>
  %h = graph.matmul %xs, %a : tensor<3x4x4xf32>, tensor<3x4x8xf32> -> tensor<3x4x8xf32>
  %t = graph.tanh %h : tensor<3x4x8xf32>
  %y = graph.matmul %t, %b : tensor<3x4x8xf32>, tensor<3x8x4xf32> -> tensor<3x4x4xf32>
  %turned = graph.transpose %all, [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
  %column = graph.reshape %turned : tensor<3x4xf32> -> tensor<3x4x1xf32>
  %each = graph.broadcast %column : tensor<3x4x1xf32> -> tensor<3x4x4xf32>
  %z = graph.mul %y, %each : tensor<3x4x4xf32>
  %sum = graph.reduce_sum %z, [0] : tensor<3x4x4xf32> -> tensor<1x4x4xf32>
  %r = graph.reshape %sum : tensor<1x4x4xf32> -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func.func @gathered
// CHECK-NOT:     graph.route
// CHECK:         return
func.func @gathered(%x: tensor<4x4xf32>, %logits: tensor<4x3xf32>, %w0: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w1: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w2: tensor<4x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %iota = graph.iota 1 : tensor<4x3xi32>
  %place = graph.cast %iota : tensor<4x3xi32> -> tensor<4x3xf32>
  %end = graph.constant dense<2.0> : tensor<4x3xf32>
  %none = graph.constant dense<-1.0> : tensor<4x3xf32>
  %low = graph.constant dense<0xFF800000> : tensor<4x3xf32>
  %ends = graph.constant dense<2.0> : tensor<4x1xf32>
  %back = graph.sub %end, %place : tensor<4x3xf32>
  %m0 = graph.reduce_max %logits, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %mm0 = graph.broadcast %m0 : tensor<4x1xf32> -> tensor<4x3xf32>
  %eq0 = graph.compare eq, %logits, %mm0 : tensor<4x3xf32> -> tensor<4x3xi1>
  %sel0 = graph.select %eq0, %back, %none : tensor<4x3xi1>, tensor<4x3xf32>
  %r0 = graph.reduce_max %sel0, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %at0 = graph.sub %ends, %r0 : tensor<4x1xf32>
  %c0 = graph.cast %at0 : tensor<4x1xf32> -> tensor<4x1xi32>
  %h0 = graph.matmul %x, %w0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %o0 = graph.reshape %h0 : tensor<4x4xf32> -> tensor<4x1x4xf32>
  %h1 = graph.matmul %x, %w1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %o1 = graph.reshape %h1 : tensor<4x4xf32> -> tensor<4x1x4xf32>
  %h2 = graph.matmul %x, %w2 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %o2 = graph.reshape %h2 : tensor<4x4xf32> -> tensor<4x1x4xf32>
  %stack = graph.concat %o0, %o1, %o2 axis 1 : tensor<4x1x4xf32>, tensor<4x1x4xf32>, tensor<4x1x4xf32> -> tensor<4x3x4xf32>
  %table = graph.reshape %stack : tensor<4x3x4xf32> -> tensor<12x4xf32>
  %row = graph.iota 0 : tensor<4x1xi32>
  %three = graph.constant dense<3> : tensor<4x1xi32>
  %start = graph.mul %row, %three : tensor<4x1xi32>
  %index = graph.add %start, %c0 : tensor<4x1xi32>
  %flat = graph.reshape %index : tensor<4x1xi32> -> tensor<4xi32>
  %y = graph.embedding %table, %flat : tensor<12x4xf32>, tensor<4xi32> -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
