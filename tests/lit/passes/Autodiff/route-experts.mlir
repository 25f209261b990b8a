// RUN: ztc-opt %s --ztc-route-experts --split-input-file | FileCheck %s
// RUN: ztc-opt %s --ztc-route-experts --split-input-file --remarks-filter=ztc-route-experts 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK: [Passed] mixture {{.*}} experts compute each token
// REMARK: [Missed] mixture {{.*}}what an expert adds is not 0 where its share is 0
// REMARK: warning: each token chose 1 of 2 experts, and all of them compute it: what an expert adds is not 0 where its share is 0

// One of two experts for each of four tokens: the chosen experts' rows, in the order of the experts, are multiplied with a stack of the weights. The share
// multiplies what the last product reads.
// CHECK-LABEL: func.func @forward
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x4xf32>
// CHECK:         %[[ORDER:.*]], %[[PLACES:.*]], %[[STARTS:.*]] = graph.route %{{.*}} : tensor<4x1xi32> -> tensor<4xi32>, tensor<4x1xi32>, tensor<3xi32>
// CHECK:         %[[SHARE:.*]] = graph.dispatch %{{.*}} by %[[ORDER]], %{{.*}} : tensor<4x1xf32>, tensor<4xi32>, tensor<4x1xi32> -> tensor<4x1xf32>
// CHECK:         %[[ROWS:.*]] = graph.dispatch %[[X]] by %[[ORDER]], %[[PLACES]]
// CHECK:         %[[A:.*]] = graph.concat %{{.*}}, %{{.*}} axis 0 : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<16x4xf32>
// CHECK:         %[[STACK:.*]] = graph.reshape %[[A]] : tensor<16x4xf32> -> tensor<2x8x4xf32>
// CHECK:         %[[H:.*]] = graph.grouped_matmul %[[ROWS]], %[[STACK]] rows %[[STARTS]] {transpose_b}
// CHECK:         %[[B:.*]] = graph.tanh %[[H]] : tensor<4x8xf32>
// A stack that is one parameter is read as it is.
// CHECK-NOT:     graph.concat
// CHECK:         %[[EACH:.*]] = graph.broadcast %[[SHARE]] : tensor<4x1xf32> -> tensor<4x8xf32>
// CHECK:         %[[WEIGHED:.*]] = graph.mul %[[B]], %[[EACH]]
// CHECK:         %[[Z:.*]] = graph.grouped_matmul %[[WEIGHED]], %{{.*}} rows %[[STARTS]] : tensor<4x8xf32>, tensor<2x8x4xf32>
// CHECK:         %[[SUM:.*]] = graph.combine %[[Z]] by %[[ORDER]], %[[PLACES]]
// CHECK:         return %[[SUM]]
func.func @forward(%x: tensor<4x4xf32>, %choice: tensor<4x1xi32>, %value: tensor<4x1xf32>,
                   %a0: tensor<8x4xf32> {graph.role = #graph.role<parameter>}, %a1: tensor<8x4xf32> {graph.role = #graph.role<parameter>},
                   %b: tensor<2x8x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %row = graph.iota 0 : tensor<4x1xi32>
  %two = graph.constant dense<2> : tensor<4x1xi32>
  %start = graph.mul %row, %two : tensor<4x1xi32>
  %at = graph.add %start, %choice : tensor<4x1xi32>
  %indices = graph.reshape %at : tensor<4x1xi32> -> tensor<4xi32>
  %placed = graph.embedding_grad %indices, %value : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %one = graph.constant dense<1.0> : tensor<4x1xf32>
  %hits = graph.embedding_grad %indices, %one : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %zero = graph.constant dense<0.0> : tensor<8x1xf32>
  %is = graph.compare gt, %hits, %zero : tensor<8x1xf32> -> tensor<8x1xi1>
  %shares = graph.select %is, %placed, %zero : tensor<8x1xi1>, tensor<8x1xf32>
  %all = graph.reshape %shares : tensor<8x1xf32> -> tensor<4x2xf32>
  %s0 = graph.slice %all, [0, 0] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h0 = graph.matmul %x, %a0 {transpose_b} : tensor<4x4xf32>, tensor<8x4xf32> -> tensor<4x8xf32>
  %t0 = graph.tanh %h0 : tensor<4x8xf32>
  %p0 = graph.slice %b, [0, 0, 0] : tensor<2x8x4xf32> -> tensor<1x8x4xf32>
  %b0 = graph.reshape %p0 : tensor<1x8x4xf32> -> tensor<8x4xf32>
  %y0 = graph.matmul %t0, %b0 : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %r0 = graph.broadcast %s0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %z0 = graph.mul %y0, %r0 : tensor<4x4xf32>
  %s1 = graph.slice %all, [0, 1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h1 = graph.matmul %x, %a1 {transpose_b} : tensor<4x4xf32>, tensor<8x4xf32> -> tensor<4x8xf32>
  %t1 = graph.tanh %h1 : tensor<4x8xf32>
  %p1 = graph.slice %b, [1, 0, 0] : tensor<2x8x4xf32> -> tensor<1x8x4xf32>
  %b1 = graph.reshape %p1 : tensor<1x8x4xf32> -> tensor<8x4xf32>
  %y1 = graph.matmul %t1, %b1 : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
  %r1 = graph.broadcast %s1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %z1 = graph.mul %y1, %r1 : tensor<4x4xf32>
  %y = graph.add %z0, %z1 : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// Shares that multiply what experts read, whose terms are not 0 where it is: an activation that gives 1 of 0. Nothing changes.
// CHECK-LABEL: func.func @forward
// CHECK-NOT:     graph.route
// CHECK:         return
func.func @forward(%x: tensor<4x4xf32>, %choice: tensor<4x1xi32>, %value: tensor<4x1xf32>,
                   %a0: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %a1: tensor<4x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %row = graph.iota 0 : tensor<4x1xi32>
  %two = graph.constant dense<2> : tensor<4x1xi32>
  %start = graph.mul %row, %two : tensor<4x1xi32>
  %at = graph.add %start, %choice : tensor<4x1xi32>
  %indices = graph.reshape %at : tensor<4x1xi32> -> tensor<4xi32>
  %placed = graph.embedding_grad %indices, %value : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %one = graph.constant dense<1.0> : tensor<4x1xf32>
  %hits = graph.embedding_grad %indices, %one : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %zero = graph.constant dense<0.0> : tensor<8x1xf32>
  %is = graph.compare gt, %hits, %zero : tensor<8x1xf32> -> tensor<8x1xi1>
  %shares = graph.select %is, %placed, %zero : tensor<8x1xi1>, tensor<8x1xf32>
  %all = graph.reshape %shares : tensor<8x1xf32> -> tensor<4x2xf32>
  %s0 = graph.slice %all, [0, 0] : tensor<4x2xf32> -> tensor<4x1xf32>
  %r0 = graph.broadcast %s0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %x0 = graph.mul %x, %r0 : tensor<4x4xf32>
  %h0 = graph.matmul %x0, %a0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %z0 = graph.cos %h0 : tensor<4x4xf32>
  %s1 = graph.slice %all, [0, 1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %r1 = graph.broadcast %s1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %x1 = graph.mul %x, %r1 : tensor<4x4xf32>
  %h1 = graph.matmul %x1, %a1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %z1 = graph.cos %h1 : tensor<4x4xf32>
  %y = graph.add %z0, %z1 : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// A token of each of two rows of a batch, as decoding has it: indices count from each row's own position, which cancels. Of the shares, which a number of each expert
// multiplies, those of the choices are looked up.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[TABLE:.*]] = graph.reshape %{{.*}} : tensor<2x1x2xf32> -> tensor<4x1xf32>
// CHECK:         %[[CHOSEN:.*]] = graph.embedding %[[TABLE]], %{{.*}} : tensor<4x1xf32>, tensor<2xi32> -> tensor<2x1xf32>
// CHECK:         graph.dispatch %[[CHOSEN]]
// CHECK-COUNT-1: graph.grouped_matmul %{{.*}} : tensor<2x4xf32>, tensor<2x4x4xf32>, tensor<3xi32> -> tensor<2x4xf32>
// CHECK:         graph.combine
func.func @forward(%x: tensor<2x4xf32>, %position: tensor<2xi32>, %choice: tensor<2x1x1xi32>, %value: tensor<2x1x1xf32>,
                   %scale: tensor<2xf32> {graph.role = #graph.role<parameter>}, %b: tensor<2x4x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<2x1x4xf32> {
  %two = graph.constant dense<2> : tensor<2x1x1xi32>
  %p = graph.reshape %position : tensor<2xi32> -> tensor<2x1x1xi32>
  %start = graph.mul %p, %two : tensor<2x1x1xi32>
  %at = graph.add %start, %choice : tensor<2x1x1xi32>
  %flat = graph.reshape %at : tensor<2x1x1xi32> -> tensor<2x1xi32>
  %q = graph.reshape %position : tensor<2xi32> -> tensor<2x1xi32>
  %twice = graph.add %q, %q : tensor<2x1xi32>
  %own = graph.sub %flat, %twice : tensor<2x1xi32>
  %row = graph.iota 0 : tensor<2x1xi32>
  %each = graph.constant dense<2> : tensor<2x1xi32>
  %first = graph.mul %row, %each : tensor<2x1xi32>
  %indices = graph.add %own, %first : tensor<2x1xi32>
  %placed = graph.embedding_grad %indices, %value : tensor<2x1xi32>, tensor<2x1x1xf32> -> tensor<4x1xf32>
  %one = graph.constant dense<1.0> : tensor<2x1x1xf32>
  %hits = graph.embedding_grad %indices, %one : tensor<2x1xi32>, tensor<2x1x1xf32> -> tensor<4x1xf32>
  %zero = graph.constant dense<0.0> : tensor<4x1xf32>
  %is = graph.compare gt, %hits, %zero : tensor<4x1xf32> -> tensor<4x1xi1>
  %shares = graph.select %is, %placed, %zero : tensor<4x1xi1>, tensor<4x1xf32>
  %of = graph.reshape %shares : tensor<4x1xf32> -> tensor<2x1x2xf32>
  %scales = graph.broadcast %scale : tensor<2xf32> -> tensor<2x1x2xf32>
  %all = graph.mul %of, %scales : tensor<2x1x2xf32>
  %s0 = graph.slice %all, [0, 0, 0] : tensor<2x1x2xf32> -> tensor<2x1x1xf32>
  %p0 = graph.slice %b, [0, 0, 0] : tensor<2x4x4xf32> -> tensor<1x4x4xf32>
  %b0 = graph.reshape %p0 : tensor<1x4x4xf32> -> tensor<4x4xf32>
  %h0 = graph.matmul %x, %b0 : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %y0 = graph.reshape %h0 : tensor<2x4xf32> -> tensor<2x1x4xf32>
  %r0 = graph.broadcast %s0 : tensor<2x1x1xf32> -> tensor<2x1x4xf32>
  %z0 = graph.mul %y0, %r0 : tensor<2x1x4xf32>
  %s1 = graph.slice %all, [0, 0, 1] : tensor<2x1x2xf32> -> tensor<2x1x1xf32>
  %p1 = graph.slice %b, [1, 0, 0] : tensor<2x4x4xf32> -> tensor<1x4x4xf32>
  %b1 = graph.reshape %p1 : tensor<1x4x4xf32> -> tensor<4x4xf32>
  %h1 = graph.matmul %x, %b1 : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %y1 = graph.reshape %h1 : tensor<2x4xf32> -> tensor<2x1x4xf32>
  %r1 = graph.broadcast %s1 : tensor<2x1x1xf32> -> tensor<2x1x4xf32>
  %z1 = graph.mul %y1, %r1 : tensor<2x1x4xf32>
  %y = graph.add %z0, %z1 : tensor<2x1x4xf32>
  return %y : tensor<2x1x4xf32>
}

// -----

// An expert with a softmax over the tokens, whichever chose it: nothing changes.
// CHECK-LABEL: func.func @forward
// CHECK-NOT:     graph.route
// CHECK:         return
func.func @forward(%x: tensor<4x4xf32>, %choice: tensor<4x1xi32>, %value: tensor<4x1xf32>,
                   %a0: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %a1: tensor<4x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %row = graph.iota 0 : tensor<4x1xi32>
  %two = graph.constant dense<2> : tensor<4x1xi32>
  %start = graph.mul %row, %two : tensor<4x1xi32>
  %at = graph.add %start, %choice : tensor<4x1xi32>
  %indices = graph.reshape %at : tensor<4x1xi32> -> tensor<4xi32>
  %placed = graph.embedding_grad %indices, %value : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %one = graph.constant dense<1.0> : tensor<4x1xf32>
  %hits = graph.embedding_grad %indices, %one : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %zero = graph.constant dense<0.0> : tensor<8x1xf32>
  %is = graph.compare gt, %hits, %zero : tensor<8x1xf32> -> tensor<8x1xi1>
  %shares = graph.select %is, %placed, %zero : tensor<8x1xi1>, tensor<8x1xf32>
  %all = graph.reshape %shares : tensor<8x1xf32> -> tensor<4x2xf32>
  %s0 = graph.slice %all, [0, 0] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h0 = graph.matmul %x, %a0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %g0 = graph.slice %h0, [0, 0] : tensor<4x4xf32> -> tensor<4x1xf32>
  %v0 = graph.reshape %g0 : tensor<4x1xf32> -> tensor<4xf32>
  %w0 = graph.softmax %v0 : tensor<4xf32>
  %c0 = graph.reshape %w0 : tensor<4xf32> -> tensor<4x1xf32>
  %b0 = graph.broadcast %c0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %y0 = graph.mul %h0, %b0 : tensor<4x4xf32>
  %r0 = graph.broadcast %s0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %z0 = graph.mul %y0, %r0 : tensor<4x4xf32>
  %s1 = graph.slice %all, [0, 1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h1 = graph.matmul %x, %a1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %g1 = graph.slice %h1, [0, 0] : tensor<4x4xf32> -> tensor<4x1xf32>
  %v1 = graph.reshape %g1 : tensor<4x1xf32> -> tensor<4xf32>
  %w1 = graph.softmax %v1 : tensor<4xf32>
  %c1 = graph.reshape %w1 : tensor<4xf32> -> tensor<4x1xf32>
  %b1 = graph.broadcast %c1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %y1 = graph.mul %h1, %b1 : tensor<4x4xf32>
  %r1 = graph.broadcast %s1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %z1 = graph.mul %y1, %r1 : tensor<4x4xf32>
  %y = graph.add %z0, %z1 : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// Rows that an expert moves to the next token: nothing changes.
// CHECK-LABEL: func.func @forward
// CHECK-NOT:     graph.route
// CHECK:         return
func.func @forward(%x: tensor<4x4xf32>, %choice: tensor<4x1xi32>, %value: tensor<4x1xf32>,
                   %a0: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %a1: tensor<4x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %row = graph.iota 0 : tensor<4x1xi32>
  %two = graph.constant dense<2> : tensor<4x1xi32>
  %start = graph.mul %row, %two : tensor<4x1xi32>
  %at = graph.add %start, %choice : tensor<4x1xi32>
  %indices = graph.reshape %at : tensor<4x1xi32> -> tensor<4xi32>
  %placed = graph.embedding_grad %indices, %value : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %one = graph.constant dense<1.0> : tensor<4x1xf32>
  %hits = graph.embedding_grad %indices, %one : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %zero = graph.constant dense<0.0> : tensor<8x1xf32>
  %is = graph.compare gt, %hits, %zero : tensor<8x1xf32> -> tensor<8x1xi1>
  %shares = graph.select %is, %placed, %zero : tensor<8x1xi1>, tensor<8x1xf32>
  %all = graph.reshape %shares : tensor<8x1xf32> -> tensor<4x2xf32>
  %s0 = graph.slice %all, [0, 0] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h0 = graph.matmul %x, %a0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %g0 = graph.slice %h0, [0, 0] : tensor<4x4xf32> -> tensor<3x4xf32>
  %y0 = graph.pad %g0, [1, 0] : tensor<3x4xf32> -> tensor<4x4xf32>
  %r0 = graph.broadcast %s0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %z0 = graph.mul %y0, %r0 : tensor<4x4xf32>
  %s1 = graph.slice %all, [0, 1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h1 = graph.matmul %x, %a1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %g1 = graph.slice %h1, [0, 0] : tensor<4x4xf32> -> tensor<3x4xf32>
  %y1 = graph.pad %g1, [1, 0] : tensor<3x4xf32> -> tensor<4x4xf32>
  %r1 = graph.broadcast %s1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %z1 = graph.mul %y1, %r1 : tensor<4x4xf32>
  %y = graph.add %z0, %z1 : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// A softmax within each row is computed of the rows that chose the expert.
// CHECK-LABEL: func.func @forward
// CHECK:         %[[H:.*]] = graph.grouped_matmul
// CHECK:         graph.softmax %[[H]] : tensor<4x4xf32>
// CHECK:         graph.combine
func.func @forward(%x: tensor<4x4xf32>, %choice: tensor<4x1xi32>, %value: tensor<4x1xf32>,
                   %a0: tensor<4x4xf32> {graph.role = #graph.role<parameter>}, %a1: tensor<4x4xf32> {graph.role = #graph.role<parameter>}) -> tensor<4x4xf32> {
  %row = graph.iota 0 : tensor<4x1xi32>
  %two = graph.constant dense<2> : tensor<4x1xi32>
  %start = graph.mul %row, %two : tensor<4x1xi32>
  %at = graph.add %start, %choice : tensor<4x1xi32>
  %indices = graph.reshape %at : tensor<4x1xi32> -> tensor<4xi32>
  %placed = graph.embedding_grad %indices, %value : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %one = graph.constant dense<1.0> : tensor<4x1xf32>
  %hits = graph.embedding_grad %indices, %one : tensor<4xi32>, tensor<4x1xf32> -> tensor<8x1xf32>
  %zero = graph.constant dense<0.0> : tensor<8x1xf32>
  %is = graph.compare gt, %hits, %zero : tensor<8x1xf32> -> tensor<8x1xi1>
  %shares = graph.select %is, %placed, %zero : tensor<8x1xi1>, tensor<8x1xf32>
  %all = graph.reshape %shares : tensor<8x1xf32> -> tensor<4x2xf32>
  %s0 = graph.slice %all, [0, 0] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h0 = graph.matmul %x, %a0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %y0 = graph.softmax %h0 : tensor<4x4xf32>
  %r0 = graph.broadcast %s0 : tensor<4x1xf32> -> tensor<4x4xf32>
  %z0 = graph.mul %y0, %r0 : tensor<4x4xf32>
  %s1 = graph.slice %all, [0, 1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %h1 = graph.matmul %x, %a1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %y1 = graph.softmax %h1 : tensor<4x4xf32>
  %r1 = graph.broadcast %s1 : tensor<4x1xf32> -> tensor<4x4xf32>
  %z1 = graph.mul %y1, %r1 : tensor<4x4xf32>
  %y = graph.add %z0, %z1 : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
