// RUN: ztc-opt %s --ztc-fuse-amax | FileCheck %s

// The group gives the maxima of its rows beside the matrix; reshapes stand between them.
// CHECK-LABEL: func.func @rows(
// CHECK:         %[[Y:.*]]:2 = graph.fusion "abs"(%{{.*}}) : (tensor<2x16x32xbf16>) -> (tensor<2x16x32xbf16>, tensor<32x1xbf16>)
// CHECK:           %[[A:.*]] = graph.tanh
// CHECK:           %[[B:.*]] = graph.abs %[[A]] : tensor<2x16x32xbf16>
// CHECK:           %[[C:.*]] = graph.reduce_max %[[B]], [2] : tensor<2x16x32xbf16> -> tensor<2x16x1xbf16>
// CHECK:           %[[D:.*]] = graph.reshape %[[C]] : tensor<2x16x1xbf16> -> tensor<32x1xbf16>
// CHECK:           graph.yield %[[A]], %[[D]]
// CHECK:         %[[X:.*]] = graph.reshape %[[Y]]#0
// CHECK:         graph.quantize_fp8 %[[X]] amax %[[Y]]#1 : tensor<32x1xbf16> {by_rows}
func.func @rows(%x: tensor<2x16x32xbf16>) -> (tensor<2xf32>, tensor<32x32xf8E4M3FN>) {
  %y = graph.fusion "abs"(%x) : (tensor<2x16x32xbf16>) -> tensor<2x16x32xbf16> {
  ^bb0(%a: tensor<2x16x32xbf16>):
    %t = graph.tanh %a : tensor<2x16x32xbf16>
    graph.yield %t : tensor<2x16x32xbf16>
  }
  %m = graph.reshape %y : tensor<2x16x32xbf16> -> tensor<32x32xbf16>
  %s, %q = graph.quantize_fp8 %m {by_rows} : tensor<32x32xbf16> -> tensor<2xf32>, tensor<32x32xf8E4M3FN>
  return %s, %q : tensor<2xf32>, tensor<32x32xf8E4M3FN>
}

// Heads: one maximum for each.
// CHECK-LABEL: func.func @heads(
// CHECK:         %[[Y:.*]]:2 = graph.fusion "heads"(%{{.*}}) : (tensor<16x2x16xbf16>) -> (tensor<16x2x16xbf16>, tensor<32x1xbf16>)
// CHECK:         graph.quantize_fp8 %{{.*}} amax %[[Y]]#1 : tensor<32x1xbf16> {by_rows} : tensor<16x32xbf16>
func.func @heads(%x: tensor<16x2x16xbf16>) -> (tensor<2xf32>, tensor<16x32xf8E4M3FN>) {
  %y = graph.fusion "heads"(%x) : (tensor<16x2x16xbf16>) -> tensor<16x2x16xbf16> {
  ^bb0(%a: tensor<16x2x16xbf16>):
    %t = graph.tanh %a : tensor<16x2x16xbf16>
    graph.yield %t : tensor<16x2x16xbf16>
  }
  %m = graph.reshape %y : tensor<16x2x16xbf16> -> tensor<16x32xbf16>
  %s, %q = graph.quantize_fp8 %m {by_rows} : tensor<16x32xbf16> -> tensor<2xf32>, tensor<16x32xf8E4M3FN>
  return %s, %q : tensor<2xf32>, tensor<16x32xf8E4M3FN>
}

// Two matrices side by side, of one width: one pass over a row finds the maximum of both.
// CHECK-LABEL: func.func @parts(
// CHECK:         graph.fusion "parts"
// CHECK:           %[[A:.*]] = graph.tanh
// CHECK:           %[[B:.*]] = graph.exp
// CHECK:           graph.concat
// CHECK:           %[[C:.*]] = graph.abs %[[A]]
// CHECK:           %[[D:.*]] = graph.abs %[[B]]
// CHECK:           %[[E:.*]] = graph.maximum %[[C]], %[[D]] : tensor<16x32xbf16>
// CHECK:           %[[F:.*]] = graph.reduce_max %[[E]], [1] : tensor<16x32xbf16> -> tensor<16x1xbf16>
// CHECK-NEXT:      graph.yield
// CHECK:         graph.quantize_fp8 %{{.*}} amax %{{.*}} : tensor<16x1xbf16>
func.func @parts(%x: tensor<16x32xbf16>) -> (tensor<2xf32>, tensor<16x64xf8E4M3FN>) {
  %y = graph.fusion "parts"(%x) : (tensor<16x32xbf16>) -> tensor<16x64xbf16> {
  ^bb0(%a: tensor<16x32xbf16>):
    %t = graph.tanh %a : tensor<16x32xbf16>
    %u = graph.exp %a : tensor<16x32xbf16>
    %j = graph.concat %t, %u axis 1 : tensor<16x32xbf16>, tensor<16x32xbf16> -> tensor<16x64xbf16>
    graph.yield %j : tensor<16x64xbf16>
  }
  %s, %q = graph.quantize_fp8 %y {by_rows} : tensor<16x64xbf16> -> tensor<2xf32>, tensor<16x64xf8E4M3FN>
  return %s, %q : tensor<2xf32>, tensor<16x64xf8E4M3FN>
}

// Heads of two tensors side by side, and a matrix that no group writes, are left alone.
// CHECK-LABEL: func.func @left(
// CHECK-NOT:     amax
func.func @left(%x: tensor<16x32xbf16>) -> (tensor<2xf32>, tensor<16x64xf8E4M3FN>, tensor<2xf32>, tensor<16x32xf8E4M3FN>) {
  %y = graph.fusion "heads"(%x) : (tensor<16x32xbf16>) -> tensor<16x64xbf16> {
  ^bb0(%a: tensor<16x32xbf16>):
    %h = graph.reshape %a : tensor<16x32xbf16> -> tensor<16x2x16xbf16>
    %t = graph.tanh %h : tensor<16x2x16xbf16>
    %m = graph.reshape %t : tensor<16x2x16xbf16> -> tensor<16x32xbf16>
    %u = graph.exp %a : tensor<16x32xbf16>
    %j = graph.concat %m, %u axis 1 : tensor<16x32xbf16>, tensor<16x32xbf16> -> tensor<16x64xbf16>
    graph.yield %j : tensor<16x64xbf16>
  }
  %s, %q = graph.quantize_fp8 %y {by_rows} : tensor<16x64xbf16> -> tensor<2xf32>, tensor<16x64xf8E4M3FN>
  %t, %r = graph.quantize_fp8 %x {by_rows} : tensor<16x32xbf16> -> tensor<2xf32>, tensor<16x32xf8E4M3FN>
  return %s, %q, %t, %r : tensor<2xf32>, tensor<16x64xf8E4M3FN>, tensor<2xf32>, tensor<16x32xf8E4M3FN>
}
