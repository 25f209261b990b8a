// Shares of experts in other forms than a scatter of them: what matters is that a share is 0 where a token did not choose the expert.
// RUN: ztc-opt %s --ztc-route-experts --split-input-file | FileCheck %s
// RUN: ztc-opt %s --ztc-route-experts --split-input-file --remarks-filter=ztc-route-experts 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK: [Passed] mixture {{.*}}Function=compared
// REMARK: [Passed] mixture {{.*}}Function=hidden
// REMARK: [Passed] mixture {{.*}}Function=hidden
// REMARK: [Passed] mixture {{.*}}Function=normed
// REMARK: [Missed] mixture {{.*}}Function=twice{{.*}}a token may choose one expert twice

// (w * (i == e)).sum(-1): the shares of the rows are w. What else the sum adds stays in it.
// CHECK-LABEL: func.func @compared
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x4xf32>, %{{.*}}: tensor<4x3xf32>, %[[W:[a-z0-9]+]]: tensor<4x2xf32>
// CHECK:         graph.route %{{.*}} : tensor<4x2xi32> -> tensor<8xi32>, tensor<4x2xi32>, tensor<4xi32>
// CHECK:         %[[SHARES:.*]] = graph.reshape %[[W]] : tensor<4x2xf32> -> tensor<8x1xf32>
// CHECK:         graph.dispatch %[[SHARES]]
// CHECK-COUNT-1: graph.grouped_matmul %{{.*}} : tensor<8x4xf32>, tensor<3x4x4xf32>, tensor<4xi32>
// CHECK:         %[[Y:.*]] = graph.combine
// CHECK-NEXT:    %[[SUM:.*]] = graph.add %[[X]], %[[Y]]
// CHECK-NEXT:    return %[[SUM]]
func.func @compared(%x: tensor<4x4xf32>, %logits: tensor<4x3xf32>, %w: tensor<4x2xf32>, %w0: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w1: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w2: tensor<4x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
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
  %atb0 = graph.broadcast %at0 : tensor<4x1xf32> -> tensor<4x3xf32>
  %hit0 = graph.compare eq, %place, %atb0 : tensor<4x3xf32> -> tensor<4x3xi1>
  %x0 = graph.select %hit0, %low, %logits : tensor<4x3xi1>, tensor<4x3xf32>
  %m1 = graph.reduce_max %x0, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %mm1 = graph.broadcast %m1 : tensor<4x1xf32> -> tensor<4x3xf32>
  %eq1 = graph.compare eq, %x0, %mm1 : tensor<4x3xf32> -> tensor<4x3xi1>
  // As importers write it: a NaN is larger than any number.
  %infinity = graph.constant dense<0x7F800000> : tensor<4x3xf32>
  %zeros = graph.constant dense<0.0> : tensor<4x3xf32>
  %number1 = graph.compare le, %x0, %infinity : tensor<4x3xf32> -> tensor<4x3xi1>
  %none1 = graph.select %number1, %zeros, %back : tensor<4x3xi1>, tensor<4x3xf32>
  %sel1 = graph.select %eq1, %back, %none1 : tensor<4x3xi1>, tensor<4x3xf32>
  %r1 = graph.reduce_max %sel1, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %at1 = graph.sub %ends, %r1 : tensor<4x1xf32>
  %c1 = graph.cast %at1 : tensor<4x1xf32> -> tensor<4x1xi32>
  %i = graph.concat %c0, %c1 axis 1 : tensor<4x1xi32>, tensor<4x1xi32> -> tensor<4x2xi32>
  %e0 = graph.constant dense<0> : tensor<4x2xi32>
  %is0 = graph.compare eq, %i, %e0 : tensor<4x2xi32> -> tensor<4x2xi1>
  %f0 = graph.cast %is0 : tensor<4x2xi1> -> tensor<4x2xf32>
  %wf0 = graph.mul %w, %f0 : tensor<4x2xf32>
  %s0 = graph.reduce_sum %wf0, [1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h0 = graph.matmul %x, %w0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b0 = graph.broadcast %s0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %t0 = graph.mul %h0, %b0 : tensor<4x4xf32>
  %y0 = graph.add %x, %t0 : tensor<4x4xf32>
  %e1 = graph.constant dense<1> : tensor<4x2xi32>
  %is1 = graph.compare eq, %i, %e1 : tensor<4x2xi32> -> tensor<4x2xi1>
  %f1 = graph.cast %is1 : tensor<4x2xi1> -> tensor<4x2xf32>
  %wf1 = graph.mul %w, %f1 : tensor<4x2xf32>
  %s1 = graph.reduce_sum %wf1, [1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h1 = graph.matmul %x, %w1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b1 = graph.broadcast %s1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %t1 = graph.mul %h1, %b1 : tensor<4x4xf32>
  %y1 = graph.add %y0, %t1 : tensor<4x4xf32>
  %e2 = graph.constant dense<2> : tensor<4x2xi32>
  %is2 = graph.compare eq, %i, %e2 : tensor<4x2xi32> -> tensor<4x2xi1>
  %f2 = graph.cast %is2 : tensor<4x2xi1> -> tensor<4x2xf32>
  %wf2 = graph.mul %w, %f2 : tensor<4x2xf32>
  %s2 = graph.reduce_sum %wf2, [1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h2 = graph.matmul %x, %w2 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b2 = graph.broadcast %s2 : tensor<4x1xf32> -> tensor<4x4xf32>
  %t2 = graph.mul %h2, %b2 : tensor<4x4xf32>
  %y2 = graph.add %y1, %t2 : tensor<4x4xf32>
  return %y2 : tensor<4x4xf32>
}

// -----

// A softmax over minus infinity where an expert was not chosen; two mixtures of the same shares, which something else reads too. The shares of the choices are looked up.
// CHECK-LABEL: func.func @hidden
// CHECK:         %[[SHARES:.*]] = graph.softmax
// CHECK:         %[[TABLE:.*]] = graph.reshape %[[SHARES]] : tensor<4x3xf32> -> tensor<12x1xf32>
// CHECK:         graph.embedding %[[TABLE]], %{{.*}} : tensor<12x1xf32>, tensor<4xi32> -> tensor<4x1xf32>
// CHECK-COUNT-2: graph.combine
// CHECK:         return
func.func @hidden(%x: tensor<4x4xf32>, %logits: tensor<4x3xf32>, %w0: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w1: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w2: tensor<4x4xf32> {graph.role = #graph.role<parameter>}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x1xf32>) {
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
  %zero = graph.constant dense<0.0> : tensor<4x4xf32>
  %e = graph.broadcast %c0 : tensor<4x1xi32> -> tensor<4x3xi32>
  %is = graph.compare eq, %e, %iota : tensor<4x3xi32> -> tensor<4x3xi1>
  %only = graph.select %is, %logits, %low : tensor<4x3xi1>, tensor<4x3xf32>
  %all = graph.softmax %only : tensor<4x3xf32>
  %square = graph.mul %all, %all : tensor<4x3xf32>
  %auxiliary = graph.reduce_sum %square, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %ps0 = graph.slice %all, [0, 0] : tensor<4x3xf32> -> tensor<4x1xf32>
  %ph0 = graph.matmul %x, %w0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %pb0 = graph.broadcast %ps0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %pt0 = graph.mul %ph0, %pb0 : tensor<4x4xf32>
  %py0 = graph.add %zero, %pt0 : tensor<4x4xf32>
  %ps1 = graph.slice %all, [0, 1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %ph1 = graph.matmul %x, %w1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %pb1 = graph.broadcast %ps1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %pt1 = graph.mul %ph1, %pb1 : tensor<4x4xf32>
  %py1 = graph.add %py0, %pt1 : tensor<4x4xf32>
  %ps2 = graph.slice %all, [0, 2] : tensor<4x3xf32> -> tensor<4x1xf32>
  %ph2 = graph.matmul %x, %w2 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %pb2 = graph.broadcast %ps2 : tensor<4x1xf32> -> tensor<4x4xf32>
  %pt2 = graph.mul %ph2, %pb2 : tensor<4x4xf32>
  %py2 = graph.add %py1, %pt2 : tensor<4x4xf32>
  %qs0 = graph.slice %all, [0, 0] : tensor<4x3xf32> -> tensor<4x1xf32>
  %qh0 = graph.matmul %x, %w0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %qb0 = graph.broadcast %qs0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %qt0 = graph.mul %qh0, %qb0 : tensor<4x4xf32>
  %u0 = graph.tanh %qt0 : tensor<4x4xf32>
  %qy0 = graph.add %zero, %u0 : tensor<4x4xf32>
  %qs1 = graph.slice %all, [0, 1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %qh1 = graph.matmul %x, %w1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %qb1 = graph.broadcast %qs1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %qt1 = graph.mul %qh1, %qb1 : tensor<4x4xf32>
  %u1 = graph.tanh %qt1 : tensor<4x4xf32>
  %qy1 = graph.add %qy0, %u1 : tensor<4x4xf32>
  %qs2 = graph.slice %all, [0, 2] : tensor<4x3xf32> -> tensor<4x1xf32>
  %qh2 = graph.matmul %x, %w2 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %qb2 = graph.broadcast %qs2 : tensor<4x1xf32> -> tensor<4x4xf32>
  %qt2 = graph.mul %qh2, %qb2 : tensor<4x4xf32>
  %u2 = graph.tanh %qt2 : tensor<4x4xf32>
  %qy2 = graph.add %qy1, %u2 : tensor<4x4xf32>
  return %py2, %qy2, %auxiliary : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x1xf32>
}

// -----

// Experts with a norm of their own: its weight is looked up for each row by a product with a column of ones.
// CHECK-LABEL: func.func @normed
// CHECK:         %[[UNIT:.*]] = graph.rms_norm %{{.*}} : tensor<4x4xf32>, tensor<4xf32>
// CHECK:         %[[EACH:.*]] = graph.grouped_matmul %{{.*}} : tensor<4x1xf32>, tensor<3x1x4xf32>, tensor<4xi32> -> tensor<4x4xf32>
// CHECK:         %[[NORMED:.*]] = graph.mul %[[UNIT]], %[[EACH]]
// CHECK:         graph.combine
func.func @normed(%x: tensor<4x4xf32>, %logits: tensor<4x3xf32>, %w0: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w1: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w2: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %g0: tensor<4xf32> {graph.role = #graph.role<parameter>}, %g1: tensor<4xf32> {graph.role = #graph.role<parameter>}, %g2: tensor<4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
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
  %s0 = graph.slice %all, [0, 0] : tensor<4x3xf32> -> tensor<4x1xf32>
  %n0 = graph.rms_norm %x, %g0, 1.0e-05 : tensor<4x4xf32>, tensor<4xf32>
  %h0 = graph.matmul %n0, %w0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b0 = graph.broadcast %s0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %t0 = graph.mul %h0, %b0 : tensor<4x4xf32>
  %s1 = graph.slice %all, [0, 1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %n1 = graph.rms_norm %x, %g1, 1.0e-05 : tensor<4x4xf32>, tensor<4xf32>
  %h1 = graph.matmul %n1, %w1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b1 = graph.broadcast %s1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %t1 = graph.mul %h1, %b1 : tensor<4x4xf32>
  %y1 = graph.add %t0, %t1 : tensor<4x4xf32>
  %s2 = graph.slice %all, [0, 2] : tensor<4x3xf32> -> tensor<4x1xf32>
  %n2 = graph.rms_norm %x, %g2, 1.0e-05 : tensor<4x4xf32>, tensor<4xf32>
  %h2 = graph.matmul %n2, %w2 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b2 = graph.broadcast %s2 : tensor<4x1xf32> -> tensor<4x4xf32>
  %t2 = graph.mul %h2, %b2 : tensor<4x4xf32>
  %y2 = graph.add %y1, %t2 : tensor<4x4xf32>
  return %y2 : tensor<4x4xf32>
}

// -----

// Two choices of which nothing says that they differ, and experts that read what their share multiplies: one that is chosen twice counts once.
// CHECK-LABEL: func.func @twice
// CHECK-NOT:     graph.route
// CHECK:         return
func.func @twice(%x: tensor<4x4xf32>, %one: tensor<4x3xf32>, %other: tensor<4x3xf32>, %w: tensor<4x2xf32>, %w0: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w1: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %w2: tensor<4x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %aiota = graph.iota 1 : tensor<4x3xi32>
  %aplace = graph.cast %aiota : tensor<4x3xi32> -> tensor<4x3xf32>
  %aend = graph.constant dense<2.0> : tensor<4x3xf32>
  %anone = graph.constant dense<-1.0> : tensor<4x3xf32>
  %alow = graph.constant dense<0xFF800000> : tensor<4x3xf32>
  %aends = graph.constant dense<2.0> : tensor<4x1xf32>
  %aback = graph.sub %aend, %aplace : tensor<4x3xf32>
  %am0 = graph.reduce_max %one, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %amm0 = graph.broadcast %am0 : tensor<4x1xf32> -> tensor<4x3xf32>
  %aeq0 = graph.compare eq, %one, %amm0 : tensor<4x3xf32> -> tensor<4x3xi1>
  %asel0 = graph.select %aeq0, %aback, %anone : tensor<4x3xi1>, tensor<4x3xf32>
  %ar0 = graph.reduce_max %asel0, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %aat0 = graph.sub %aends, %ar0 : tensor<4x1xf32>
  %ac0 = graph.cast %aat0 : tensor<4x1xf32> -> tensor<4x1xi32>
  %biota = graph.iota 1 : tensor<4x3xi32>
  %bplace = graph.cast %biota : tensor<4x3xi32> -> tensor<4x3xf32>
  %bend = graph.constant dense<2.0> : tensor<4x3xf32>
  %bnone = graph.constant dense<-1.0> : tensor<4x3xf32>
  %blow = graph.constant dense<0xFF800000> : tensor<4x3xf32>
  %bends = graph.constant dense<2.0> : tensor<4x1xf32>
  %bback = graph.sub %bend, %bplace : tensor<4x3xf32>
  %bm0 = graph.reduce_max %other, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %bmm0 = graph.broadcast %bm0 : tensor<4x1xf32> -> tensor<4x3xf32>
  %beq0 = graph.compare eq, %other, %bmm0 : tensor<4x3xf32> -> tensor<4x3xi1>
  %bsel0 = graph.select %beq0, %bback, %bnone : tensor<4x3xi1>, tensor<4x3xf32>
  %br0 = graph.reduce_max %bsel0, [1] : tensor<4x3xf32> -> tensor<4x1xf32>
  %bat0 = graph.sub %bends, %br0 : tensor<4x1xf32>
  %bc0 = graph.cast %bat0 : tensor<4x1xf32> -> tensor<4x1xi32>
  %i = graph.concat %ac0, %bc0 axis 1 : tensor<4x1xi32>, tensor<4x1xi32> -> tensor<4x2xi32>
  %zero = graph.constant dense<0.0> : tensor<4x2xf32>
  %e0 = graph.constant dense<0> : tensor<4x2xi32>
  %is0 = graph.compare eq, %i, %e0 : tensor<4x2xi32> -> tensor<4x2xi1>
  %wf0 = graph.select %is0, %w, %zero : tensor<4x2xi1>, tensor<4x2xf32>
  %s0 = graph.reduce_sum %wf0, [1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h0 = graph.matmul %x, %w0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b0 = graph.broadcast %s0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %t0 = graph.mul %h0, %b0 : tensor<4x4xf32>
  %u0 = graph.tanh %t0 : tensor<4x4xf32>
  %e1 = graph.constant dense<1> : tensor<4x2xi32>
  %is1 = graph.compare eq, %i, %e1 : tensor<4x2xi32> -> tensor<4x2xi1>
  %wf1 = graph.select %is1, %w, %zero : tensor<4x2xi1>, tensor<4x2xf32>
  %s1 = graph.reduce_sum %wf1, [1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h1 = graph.matmul %x, %w1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b1 = graph.broadcast %s1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %t1 = graph.mul %h1, %b1 : tensor<4x4xf32>
  %u1 = graph.tanh %t1 : tensor<4x4xf32>
  %y1 = graph.add %u0, %u1 : tensor<4x4xf32>
  %e2 = graph.constant dense<2> : tensor<4x2xi32>
  %is2 = graph.compare eq, %i, %e2 : tensor<4x2xi32> -> tensor<4x2xi1>
  %wf2 = graph.select %is2, %w, %zero : tensor<4x2xi1>, tensor<4x2xf32>
  %s2 = graph.reduce_sum %wf2, [1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h2 = graph.matmul %x, %w2 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b2 = graph.broadcast %s2 : tensor<4x1xf32> -> tensor<4x4xf32>
  %t2 = graph.mul %h2, %b2 : tensor<4x4xf32>
  %u2 = graph.tanh %t2 : tensor<4x4xf32>
  %y2 = graph.add %y1, %u2 : tensor<4x4xf32>
  return %y2 : tensor<4x4xf32>
}
