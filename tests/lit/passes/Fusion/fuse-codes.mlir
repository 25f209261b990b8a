// RUN: ztc-opt %s --ztc-fuse-codes | FileCheck %s
// RUN: ztc-opt %s --ztc-fuse-codes --remarks-filter=ztc-fuse-codes 2>&1 | FileCheck %s --check-prefix=REMARK

// The group writes codes and the maxima of its rows; the matrix has no uses left, so it is not written.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME:    %[[X:.*]]: tensor<2x16x32xbf16>, %[[S:.*]]: tensor<2xf32>
// CHECK:         %[[Y:.*]]:2 = graph.fusion "tanh"(%[[X]], %[[S]]) : (tensor<2x16x32xbf16>, tensor<2xf32>) -> (tensor<32x32xf8E4M3FN>, tensor<32x1xbf16>)
// CHECK:         ^bb0(%{{.*}}: tensor<2x16x32xbf16>, %[[T:.*]]: tensor<2xf32>):
// CHECK:           %[[A:.*]] = graph.tanh
// CHECK:           %[[M:.*]] = graph.reshape %{{.*}} : tensor<2x16x1xbf16> -> tensor<32x1xbf16>
// CHECK:           %[[F:.*]] = graph.slice %[[T]], [1] : tensor<2xf32> -> tensor<1xf32>
// CHECK:           %[[B:.*]] = graph.broadcast %[[F]] : tensor<1xf32> -> tensor<2x16x32xf32>
// CHECK:           %[[C:.*]] = graph.fp8_codes %[[A]], %[[B]] : tensor<2x16x32xbf16>, tensor<2x16x32xf32> -> tensor<2x16x32xf8E4M3FN>
// CHECK:           %[[R:.*]] = graph.reshape %[[C]]
// CHECK:           graph.yield %[[R]], %[[M]]
// CHECK:         %[[N:.*]], %[[Q:.*]] = graph.note_codes %[[Y]]#0 amax %[[Y]]#1 : tensor<32x32xf8E4M3FN>, tensor<32x1xbf16> -> tensor<1xf32>, tensor<32x32xf8E4M3FN>
// CHECK:         return %[[N]], %[[Y]]#0, %[[Q]]
func.func @rows(%x: tensor<2x16x32xbf16>, %s: tensor<2xf32>) -> (tensor<1xf32>, tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>) {
  %y = graph.fusion "tanh"(%x) : (tensor<2x16x32xbf16>) -> tensor<2x16x32xbf16> {
  ^bb0(%a: tensor<2x16x32xbf16>):
    %t = graph.tanh %a : tensor<2x16x32xbf16>
    graph.yield %t : tensor<2x16x32xbf16>
  }
  %m = graph.reshape %y : tensor<2x16x32xbf16> -> tensor<32x32xbf16>
  %n, %q:2 = graph.encode_fp8 %m scale %s {by_rows, by_columns} : tensor<32x32xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>
  return %n, %q#0, %q#1 : tensor<1xf32>, tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>
}

// Matrices side by side are written so; who else reads them gets them.
// CHECK-LABEL: func.func @parts(
// CHECK:         %[[Y:.*]]:3 = graph.fusion "parts"(%{{.*}}, %{{.*}}) : (tensor<16x32xbf16>, tensor<2xf32>) -> (tensor<16x64xbf16>, tensor<16x64xf8E5M2>, tensor<16x1xbf16>)
// CHECK-COUNT-2:   graph.fp8_codes %{{.*}} : tensor<16x32xbf16>, tensor<16x32xf32> -> tensor<16x32xf8E5M2>
// CHECK:           graph.concat %{{.*}}, %{{.*}} axis 1 : tensor<16x32xf8E5M2>, tensor<16x32xf8E5M2> -> tensor<16x64xf8E5M2>
// CHECK:         return %[[Y]]#0
func.func @parts(%x: tensor<16x32xbf16>, %s: tensor<2xf32>) -> (tensor<16x64xbf16>, tensor<1xf32>, tensor<16x64xf8E5M2>, tensor<64x16xf8E5M2>) {
  %y = graph.fusion "parts"(%x) : (tensor<16x32xbf16>) -> tensor<16x64xbf16> {
  ^bb0(%a: tensor<16x32xbf16>):
    %t = graph.tanh %a : tensor<16x32xbf16>
    %u = graph.exp %a : tensor<16x32xbf16>
    %j = graph.concat %t, %u axis 1 : tensor<16x32xbf16>, tensor<16x32xbf16> -> tensor<16x64xbf16>
    graph.yield %j : tensor<16x64xbf16>
  }
  %n, %q:2 = graph.encode_fp8 %y scale %s {by_rows, by_columns} : tensor<16x64xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<16x64xf8E5M2>, tensor<64x16xf8E5M2>
  return %y, %n, %q#0, %q#1 : tensor<16x64xbf16>, tensor<1xf32>, tensor<16x64xf8E5M2>, tensor<64x16xf8E5M2>
}

// A matrix that no group writes, and codes in one order alone, are made by a kernel of their own.
// CHECK-LABEL: func.func @left(
// CHECK-COUNT-2: graph.encode_fp8
// CHECK-NOT:     graph.note_codes
// REMARK-COUNT-2: codes are made by a kernel of their own
func.func @left(%x: tensor<16x32xbf16>, %s: tensor<2xf32>) -> (tensor<1xf32>, tensor<16x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<1xf32>, tensor<16x32xf8E4M3FN>) {
  %y = graph.fusion "tanh"(%x) : (tensor<16x32xbf16>) -> tensor<16x32xbf16> {
  ^bb0(%a: tensor<16x32xbf16>):
    %t = graph.tanh %a : tensor<16x32xbf16>
    graph.yield %t : tensor<16x32xbf16>
  }
  %n, %q:2 = graph.encode_fp8 %x scale %s {by_rows, by_columns} : tensor<16x32xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<16x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>
  %m, %r = graph.encode_fp8 %y scale %s {by_rows} : tensor<16x32xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<16x32xf8E4M3FN>
  return %n, %q#0, %q#1, %m, %r : tensor<1xf32>, tensor<16x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<1xf32>, tensor<16x32xf8E4M3FN>
}
