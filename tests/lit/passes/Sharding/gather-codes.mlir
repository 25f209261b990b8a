// RUN: ztc-opt %s --ztc-gather-codes | FileCheck %s

// A bucket that products in fp8 alone read is gathered as codes, in the forward and in the backward; maxima of all such buckets are found at the start, in one
// reduction. What is read by columns is transposed.
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    %[[A:[^:]*]]: tensor<?xbf16, #dist.shard<@block0_fp8>>
// CHECK-SAME:    %[[B:[^:]*]]: tensor<?xbf16, #dist.shard<@block1_fp8>>
// CHECK-NEXT:    %[[OWN:.*]] = dist.shard_amax %[[A]] ranges [0, 0, 512, 0, 512, 1024]
// CHECK-NEXT:    %[[M:.*]] = dist.all_reduce_max %[[OWN]] axis "data" : tensor<2xf32>
// CHECK-NOT:     graph.row_amax
// CHECK:         %[[C:.*]], %[[S:.*]]:2 = dist.shard_codes %[[A]] amax %[[M]][0] ranges [0, 512, 512, 1024]
// CHECK-NEXT:    %[[F:.*]] = dist.all_gather %[[C]] axis "data" : tensor<?xf8E4M3FN, #dist.shard<@block0_fp8>>
// CHECK:         %[[V:.*]] = dist.view %[[F]][512] : tensor<?xf8E4M3FN, #dist.full<@block0_fp8>> -> tensor<32x16xf8E4M3FN>
// CHECK:         graph.scaled_matmul %{{.*}}, %[[V]] scales %{{.*}}, %[[S]]#1
// CHECK:         graph.linear_cross_entropy
// CHECK:         %[[C2:.*]], %[[S2:.*]]:2 = dist.shard_codes %[[A]] amax %[[M]][0]
// CHECK-NEXT:    %[[F2:.*]] = dist.all_gather %[[C2]]
// CHECK:         %[[V2:.*]] = dist.view %[[F2]][512]
// CHECK:         %[[T:.*]] = graph.transpose_codes %[[V2]] : tensor<32x16xf8E4M3FN> -> tensor<16x32xf8E4M3FN>
// CHECK:         graph.scaled_matmul %{{.*}}, %[[T]] scales %{{.*}}, %[[S2]]#1
// A bucket with another reader, and one whose weights are read together and apart, stay as they are.
// CHECK:         dist.all_gather %[[B]] axis "data" : tensor<?xbf16,
module attributes {graph.precision = "fp8", dist.zero = 3 : i64} {
  dist.mesh @mesh ["data"]
  dist.bucket @block0_fp8 {decayed = 1024 : i64, elements = 1024 : i64, layer = 0 : i64,
    parameters = [{name = "q", offset = 0 : i64, shape = array<i64: 32, 16>}, {name = "k", offset = 512 : i64, shape = array<i64: 32, 16>}]}
  dist.bucket @block1_fp8 {decayed = 1024 : i64, elements = 1024 : i64, layer = 1 : i64, parameters = [{name = "p", offset = 0 : i64, shape = array<i64: 64, 16>}]}
  func.func @microstep(%a: tensor<?xbf16, #dist.shard<@block0_fp8>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @block0_fp8},
                       %b: tensor<?xbf16, #dist.shard<@block1_fp8>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @block1_fp8},
                       %x: tensor<32x16xbf16> {graph.role = #graph.role<tokens>}, %head: tensor<32x32xbf16>, %targets: tensor<32xi32>, %scale: tensor<f32>)
      -> (tensor<32x16xbf16>, tensor<32x64xbf16>, tensor<32x32xbf16>) attributes {graph.entry = #graph.entry<microstep>} {
    %s, %q = graph.quantize_fp8 %x {by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>
    %f = dist.all_gather %a axis "data" : tensor<?xbf16, #dist.shard<@block0_fp8>> -> tensor<?xbf16, #dist.full<@block0_fp8>>
    %w0 = dist.view %f[0] : tensor<?xbf16, #dist.full<@block0_fp8>> -> tensor<32x16xbf16>
    %w = dist.view %f[512] : tensor<?xbf16, #dist.full<@block0_fp8>> -> tensor<32x16xbf16>
    %m0 = graph.row_amax %w0 : tensor<32x16xbf16> -> tensor<32x1xbf16>
    %m = graph.row_amax %w : tensor<32x16xbf16> -> tensor<32x1xbf16>
    %s0, %q0 = graph.quantize_fp8 %w0 amax %m0 : tensor<32x1xbf16> {by_rows, weight} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>
    %t, %p = graph.quantize_fp8 %w amax %m : tensor<32x1xbf16> {by_rows, weight} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>
    %y0 = graph.scaled_matmul %q, %q0 scales %s, %s0 : tensor<32x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x32xbf16>
    %y = graph.scaled_matmul %q, %p scales %s, %t : tensor<32x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x32xbf16>
    %loss, %dy, %dh = graph.linear_cross_entropy %y, %head, %targets scale %scale : tensor<f32> : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32xi32> -> tensor<f32>, tensor<32x32xbf16> and tensor<32x32xf32>
    %u, %d = graph.quantize_fp8 %dy {by_rows} : tensor<32x32xbf16> -> tensor<2xf32>, tensor<32x32xf8E5M2>
    %g = dist.all_gather %a axis "data" : tensor<?xbf16, #dist.shard<@block0_fp8>> -> tensor<?xbf16, #dist.full<@block0_fp8>>
    %v = dist.view %g[512] : tensor<?xbf16, #dist.full<@block0_fp8>> -> tensor<32x16xbf16>
    %tb, %pb = graph.quantize_fp8 %v amax %m : tensor<32x1xbf16> {by_columns, weight} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<16x32xf8E4M3FN>
    %dx = graph.scaled_matmul %d, %pb scales %u, %tb : tensor<32x32xf8E5M2>, tensor<16x32xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x16xbf16>
    %h = dist.all_gather %b axis "data" : tensor<?xbf16, #dist.shard<@block1_fp8>> -> tensor<?xbf16, #dist.full<@block1_fp8>>
    %both = dist.view %h[0] : tensor<?xbf16, #dist.full<@block1_fp8>> -> tensor<64x16xbf16>
    %half = dist.view %h[0] : tensor<?xbf16, #dist.full<@block1_fp8>> -> tensor<32x16xbf16>
    %sb, %qb = graph.quantize_fp8 %both {by_rows, weight} : tensor<64x16xbf16> -> tensor<2xf32>, tensor<64x16xf8E4M3FN>
    %sh, %qh = graph.quantize_fp8 %half {by_rows, weight} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>
    %z = graph.scaled_matmul %q, %qb scales %s, %sb : tensor<32x16xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x64xbf16>
    %zh = graph.scaled_matmul %q, %qh scales %s, %sh : tensor<32x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x32xbf16>
    %out = graph.add %zh, %y0 : tensor<32x32xbf16>
    return %dx, %z, %out : tensor<32x16xbf16>, tensor<32x64xbf16>, tensor<32x32xbf16>
  }
}
