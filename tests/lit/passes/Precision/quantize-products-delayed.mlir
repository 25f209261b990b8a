// RUN: ztc-opt %s --ztc-choose-fp8-products=scaling=delayed --ztc-quantize-products | FileCheck %s

// Activations and cotangents have the scales of the step before, in records of four numbers; weights those of their own numbers. The largest
// numbers of this step are returned, and @update keeps them where they are numbers.
// CHECK:         module attributes {graph.delayed_scaling
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    %[[KNOWN:[^:]*]]: tensor<12xf32> {graph.fp8_names = {{\[\[}}"up.input"], ["down.input"], ["down.cotangent"]], graph.role = #graph.role<state>, graph.state = "fp8_amax"}) -> (
// CHECK-SAME:    tensor<12xf32> {graph.result = #graph.result<state>, graph.state = "fp8_maxima"})
// CHECK:         %[[F:.*]] = graph.constant dense<[4.480000e+02, 4.480000e+02, 5.734400e+04]> : tensor<3xf32>
// CHECK:         %[[S:.*]] = graph.fp8_scales %[[KNOWN]] largest %[[F]] : tensor<12xf32>, tensor<3xf32>
// CHECK:         %[[SX:.*]] = graph.slice %[[S]], [0] : tensor<12xf32> -> tensor<2xf32>
// CHECK:         %[[SA:.*]] = graph.slice %[[S]], [4] : tensor<12xf32> -> tensor<2xf32>
// CHECK:         %[[SD:.*]] = graph.slice %[[S]], [8] : tensor<12xf32> -> tensor<2xf32>
// CHECK:         %[[MX:.*]], %[[QX:.*]] = graph.encode_fp8 %{{.*}} scale %[[SX]] {by_rows} : tensor<32x16xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x16xf8E4M3FN>
// CHECK:         %[[SU:.*]], %[[QU:.*]] = graph.quantize_fp8 %{{.*}} amax %{{.*}} : tensor<48x1xbf16> {by_rows, weight}
// CHECK:         graph.scaled_matmul %[[QX]], %[[QU]] scales %[[SX]], %[[SU]]
// CHECK:         %[[MA:.*]], %[[QA:.*]]:2 = graph.encode_fp8 %{{.*}} scale %[[SA]] {by_columns, by_rows}
// CHECK:         graph.linear_cross_entropy
// CHECK:         %[[MD:.*]], %[[QD:.*]]:2 = graph.encode_fp8 %{{.*}} scale %[[SD]] {by_columns, by_rows} : tensor<32x16xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x16xf8E5M2>, tensor<16x32xf8E5M2>
// CHECK:         graph.scaled_matmul %[[QD]]#1, %[[QA]]#1 scales %[[SD]], %[[SA]]
// CHECK:         %[[M:.*]] = dist.pack %[[MX]], %[[MA]], %[[MD]] at [0, 4, 8] : tensor<1xf32>, tensor<1xf32>, tensor<1xf32> -> tensor<12xf32>
// CHECK:         return %{{.*}}, %{{.*}}, %[[M]]
// CHECK-LABEL: func.func @update(
// CHECK-SAME:    %[[NOW:[^:]*]]: tensor<12xf32> {graph.role = #graph.role<state>, graph.state = "fp8_maxima"}, %[[BEFORE:[^:]*]]: tensor<12xf32> {graph.role = #graph.role<state>, graph.state = "fp8_amax"}) -> (
// CHECK-SAME:    tensor<12xf32> {graph.result = #graph.result<state>, graph.state = "fp8_amax"})
// CHECK:         %[[IS:.*]] = graph.logic
// CHECK:         %[[NEXT:.*]] = graph.select %[[IS]], %[[NOW]], %[[BEFORE]]
// CHECK:         return %{{.*}}, %[[NEXT]]
module attributes {graph.precision = "fp8"} {
  func.func @microstep(%tokens: tensor<32xi32> {graph.role = #graph.role<tokens>}, %step: tensor<16xf32> {graph.role = #graph.role<step>},
                       %e: tensor<32x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "e", graph.frozen},
                       %up: tensor<48x16xbf16> {graph.role = #graph.role<parameter>, graph.name = "up", graph.layer = 0 : i64, graph.frozen},
                       %down: tensor<16x48xbf16> {graph.role = #graph.role<parameter>, graph.name = "down", graph.layer = 0 : i64})
      -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<16x48xf32> {graph.result = #graph.result<gradient>, graph.name = "down"}) attributes {graph.entry = #graph.entry<microstep>} {
    %x = graph.embedding %e, %tokens : tensor<32x16xbf16>, tensor<32xi32> -> tensor<32x16xbf16>
    %h = graph.matmul %x, %up {transpose_b} : tensor<32x16xbf16>, tensor<48x16xbf16> -> tensor<32x48xbf16>
    %a = graph.sigmoid %h : tensor<32x48xbf16>
    %y = graph.matmul %a, %down {transpose_b} : tensor<32x48xbf16>, tensor<16x48xbf16> -> tensor<32x16xbf16>
    %s = graph.slice %step, [0] : tensor<16xf32> -> tensor<1xf32>
    %scale = graph.reshape %s : tensor<1xf32> -> tensor<f32>
    %loss, %dy, %de = graph.linear_cross_entropy %y, %e, %tokens scale %scale : tensor<f32> : tensor<32x16xbf16>, tensor<32x16xbf16>, tensor<32xi32> -> tensor<f32>, tensor<32x16xbf16> and tensor<32x16xf32>
    %da = graph.matmul %dy, %down : tensor<32x16xbf16>, tensor<16x48xbf16> -> tensor<32x48xbf16>
    %dw = graph.matmul %dy, %a {transpose_a} : tensor<32x16xbf16>, tensor<32x48xbf16> -> tensor<16x48xf32>
    return %loss, %dw : tensor<f32>, tensor<16x48xf32>
  }
  func.func @update(%step: tensor<16xf32> {graph.role = #graph.role<step>}) -> (tensor<16xf32> {graph.result = #graph.result<gradient_norm>}) attributes {graph.entry = #graph.entry<update>} {
    return %step : tensor<16xf32>
  }
}
