// RUN: ztc-opt %s --ztc-mark-matrices | FileCheck %s
// RUN: ztc-opt %s --ztc-mark-matrices=adjust=original | FileCheck %s --check-prefix=ORIGINAL

// 0.2 sqrt(max(A, B)), or sqrt(max(1, A / B)) of the matrix as it is here, however the file stores it; of a stack each expert's.
// CHECK:      tensor<64x16xf32> {graph.change_factor = 1.6{{[0-9.e+]*}} : f64, graph.layer = 0 : i64, graph.name = "up"
// CHECK-SAME: tensor<16x64xf32> {graph.change_factor = 1.6{{[0-9.e+]*}} : f64, graph.layer = 0 : i64, graph.name = "turned"
// CHECK-SAME: tensor<4x16x16xf32> {graph.change_factor = 8.0{{[0-9.e+-]*}} : f64, graph.layer = 0 : i64, graph.name = "experts"
// CHECK-SAME: tensor<4x16xf32> {graph.frozen, graph.layer = 0 : i64, graph.name = "still"
// CHECK-SAME: tensor<16xf32> {graph.layer = 0 : i64, graph.name = "norm"
// CHECK-SAME: tensor<16x4x1xf32> {graph.layer = 0 : i64, graph.name = "convolution"
// CHECK-SAME: tensor<4x16xf32> {graph.layer = 0 : i64, graph.name = "experts_bias"
// CHECK-SAME: tensor<96x16xf32> {graph.name = "head"
// ORIGINAL:      {graph.change_factor = 2.0{{[0-9.e+]*}} : f64, graph.layer = 0 : i64, graph.name = "up"
// ORIGINAL-SAME: {graph.change_factor = 1.0{{[0-9.e+]*}} : f64, graph.layer = 0 : i64, graph.name = "turned"
// ORIGINAL-SAME: {graph.change_factor = 1.0{{[0-9.e+]*}} : f64, graph.layer = 0 : i64, graph.name = "experts"
func.func @forward(%u: tensor<64x16xf32> {graph.role = #graph.role<parameter>, graph.name = "up", graph.layer = 0 : i64},
                   %t: tensor<16x64xf32> {graph.role = #graph.role<parameter>, graph.name = "turned", graph.layer = 0 : i64, graph.source = {transpose = true}},
                   %e: tensor<4x16x16xf32> {graph.role = #graph.role<parameter>, graph.name = "experts", graph.layer = 0 : i64},
                   %s: tensor<4x16xf32> {graph.role = #graph.role<parameter>, graph.name = "still", graph.layer = 0 : i64, graph.frozen},
                   %n: tensor<16xf32> {graph.role = #graph.role<parameter>, graph.name = "norm", graph.layer = 0 : i64},
                   %c: tensor<16x4x1xf32> {graph.role = #graph.role<parameter>, graph.name = "convolution", graph.layer = 0 : i64},
                   %b: tensor<4x16xf32> {graph.role = #graph.role<parameter>, graph.name = "experts_bias", graph.layer = 0 : i64},
                   %h: tensor<96x16xf32> {graph.role = #graph.role<parameter>, graph.name = "head"}) attributes {graph.entry = #graph.entry<forward>} {
  return
}
