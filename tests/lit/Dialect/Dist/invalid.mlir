// Each numbered constraint of each op, broken once.
// RUN: ztc-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{(C1) a parameter lacks name, shape or offset}}
dist.bucket @b {decayed = 0 : i64, elements = 4 : i64, parameters = [{name = "a", offset = 0 : i64}]}

// -----

// expected-error @+1 {{(C2) offset of "a" is not a multiple of 16: 8}}
dist.bucket @b {decayed = 0 : i64, elements = 12 : i64, parameters = [{name = "a", offset = 8 : i64, shape = array<i64: 4>}]}

// -----

// expected-error @+1 {{(C3) "n" starts at 16, the one before it ends at 32}}
dist.bucket @b {decayed = 0 : i64, elements = 20 : i64,
  parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 32>}, {name = "n", offset = 16 : i64, shape = array<i64: 4>}]}

// -----

// expected-error @+1 {{(C4) the last parameter ends at 4, the bucket at 8}}
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4>}]}

// -----

// expected-error @+1 {{(C5) "a" crosses the end of the decayed part at 2}}
dist.bucket @b {decayed = 2 : i64, elements = 4 : i64, parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4>}]}

// -----

// expected-error @+1 {{(C6) the quantum is not a positive multiple of 64: 100}}
dist.bucket @b {decayed = 0 : i64, elements = 4 : i64, parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4>}], quantum = 100 : i64}

// -----

// expected-error @+1 {{(C6) offset of "n" is not a multiple of 256: 64}}
dist.bucket @b {decayed = 0 : i64, elements = 68 : i64, quantum = 256 : i64,
  parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4>}, {name = "n", offset = 64 : i64, shape = array<i64: 4>}]}

// -----

func.func @view(%bucket: tensor<8xf32>) {
  // expected-error @+1 {{(C1) the view covers elements 6 to 10 of 8}}
  %0 = dist.view %bucket[6] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @view(%bucket: tensor<8xf32>) {
  // expected-error @+1 {{(C2) element types differ: 'f32', 'bf16'}}
  %0 = dist.view %bucket[0] : tensor<8xf32> -> tensor<4xbf16>
  return
}

// -----

func.func @pack(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C1) 1 parts have 2 offsets}}
  %0 = dist.pack %a at [0, 4] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @pack(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C2) a part starts at 2, the one before it ends at 4}}
  %0 = dist.pack %a, %a at [0, 2] : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @pack(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C3) the last part ends at 10, the bucket at 8}}
  %0 = dist.pack %a at [6] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @pack(%a: tensor<4xbf16>) {
  // expected-error @+1 {{(C4) element types differ: 'bf16', 'f32'}}
  %0 = dist.pack %a at [0] : tensor<4xbf16> -> tensor<8xf32>
  return
}

// -----

// expected-error @+1 {{(C1) an axis has no name or that of another one: "data"}}
dist.mesh @mesh ["data", "data"]

// -----

// expected-error @+1 {{(C1) a mesh without axes}}
dist.mesh @mesh []

// -----

// expected-error @+1 {{(C1) a layout of dist stands on a tensor that is not 1-D of open length}}
func.func private @static(%b: tensor<8xf32, #dist.shard<@b>>)

// -----

// expected-error @+1 {{(C1) a layout of dist stands on a tensor that is not 1-D of open length}}
func.func private @matrix(%b: tensor<?x?xf32, #dist.full<@b>>)

// -----

func.func @view(%bucket: tensor<?xf32, #dist.shard<@b>>) {
  // expected-error @+1 {{(C3) a view of a shard: 'tensor<?xf32, #dist.shard<@b>>'}}
  %0 = dist.view %bucket[0] : tensor<?xf32, #dist.shard<@b>> -> tensor<4xf32>
  return
}

// -----

func.func @pack(%a: tensor<4xf32>) {
  // expected-error @+1 {{(C5) parts make a shard: 'tensor<?xf32, #dist.shard<@b>>'}}
  %0 = dist.pack %a at [0] : tensor<4xf32> -> tensor<?xf32, #dist.shard<@b>>
  return
}

// -----

func.func @own_shard(%b: tensor<?xf32>) {
  // expected-error @+1 {{(C1) turns between a whole bucket and its shard, not between 'tensor<?xf32>' and 'tensor<?xf32, #dist.shard<@b>>'}}
  %0 = dist.own_shard %b : tensor<?xf32> -> tensor<?xf32, #dist.shard<@b>>
  return
}

// -----

func.func @own_shard(%b: tensor<?xf32, #dist.full<@a>>) {
  // expected-error @+1 {{(C2) the buckets differ: @a, @b}}
  %0 = dist.own_shard %b : tensor<?xf32, #dist.full<@a>> -> tensor<?xf32, #dist.shard<@b>>
  return
}

// -----

func.func @own_shard(%b: tensor<?xf32, #dist.full<@b>>) {
  // expected-error @+1 {{(C3) element types differ: 'f32', 'bf16'}}
  %0 = dist.own_shard %b : tensor<?xf32, #dist.full<@b>> -> tensor<?xbf16, #dist.shard<@b>>
  return
}

// -----

func.func @all_gather(%b: tensor<?xf32, #dist.full<@b>>) {
  // expected-error @+1 {{(C1) turns between a whole bucket and its shard}}
  %0 = dist.all_gather %b axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.full<@b>>
  return
}

// -----

func.func @all_gather(%b: tensor<?xf32, #dist.shard<@b>>) {
  // expected-error @+1 {{(C2) the buckets differ: @a, @b}}
  %0 = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.full<@a>>
  return
}

// -----

func.func @all_gather(%b: tensor<?xf32, #dist.shard<@b>>) {
  // expected-error @+1 {{(C3) element types differ: 'bf16', 'f32'}}
  %0 = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xbf16, #dist.full<@b>>
  return
}

// -----

func.func @reduce_scatter(%b: tensor<?xf32, #dist.shard<@b>>) {
  // expected-error @+1 {{(C1) turns between a whole bucket and its shard}}
  %0 = dist.reduce_scatter %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.shard<@b>>
  return
}

// -----

func.func @reduce_scatter(%b: tensor<?xf32, #dist.full<@b>>) {
  // expected-error @+1 {{(C2) the buckets differ: @b, @a}}
  %0 = dist.reduce_scatter %b axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@a>>
  return
}

// -----

func.func @reduce_scatter(%b: tensor<?xf32, #dist.full<@b>>) {
  // expected-error @+1 {{(C3) element types differ: 'f32', 'bf16'}}
  %0 = dist.reduce_scatter %b axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xbf16, #dist.shard<@b>>
  return
}

// -----

func.func @all_reduce(%x: tensor<2xf32>) {
  // expected-error @+1 {{must be 0D tensor of 32-bit float or 64-bit float values}}
  %0 = dist.all_reduce %x axis "data" : tensor<2xf32>
  return
}

// -----

func.func @all_reduce_max_start(%x: tensor<2xf32>) {
  // expected-error @+1 {{(C1) types differ: 'tensor<2xf32>', 'tensor<3xf32>'}}
  %0 = dist.all_reduce_max_start %x axis "data" : tensor<2xf32> -> !dist.pending<tensor<3xf32>>
  %1 = dist.all_reduce_max_done %0 : !dist.pending<tensor<3xf32>>
  return
}

// -----

func.func @all_reduce_max_start(%x: tensor<2xf32>) {
  // expected-error @+1 {{(C4) needs one dist.all_reduce_max_done and no other reader}}
  %0 = dist.all_reduce_max_start %x axis "data" : tensor<2xf32> -> !dist.pending<tensor<2xf32>>
  return
}

// -----

func.func @all_reduce_max_done(%p: !dist.pending<tensor<2xf32>>) {
  // expected-error @+1 {{(C1) operand must be the result of dist.all_reduce_max_start}}
  %0 = dist.all_reduce_max_done %p : !dist.pending<tensor<2xf32>>
  return
}

// -----

func.func @shard_amax(%a: tensor<?xbf16, #dist.full<@b>>) {
  // expected-error @+1 {{(C1) reads 'tensor<?xbf16, #dist.full<@b>>', not shards of one element type}}
  %0 = dist.shard_amax %a ranges [0, 0, 16] : tensor<?xbf16, #dist.full<@b>> -> tensor<1xf32>
  return
}

// -----

func.func @shard_amax(%a: tensor<?xbf16, #dist.shard<@b>>) {
  // expected-error @+1 {{(C2) has 2 numbers of ranges, not 3 of each}}
  %0 = dist.shard_amax %a ranges [0, 16] : tensor<?xbf16, #dist.shard<@b>> -> tensor<1xf32>
  return
}

// -----

func.func @shard_amax(%a: tensor<?xbf16, #dist.shard<@b>>) {
  // expected-error @+1 {{(C2) has the range 8 to 16}}
  %0 = dist.shard_amax %a ranges [0, 8, 16] : tensor<?xbf16, #dist.shard<@b>> -> tensor<1xf32>
  return
}

// -----

func.func @shard_amax(%a: tensor<?xbf16, #dist.shard<@b>>) {
  // expected-error @+1 {{(C2) has a range of operand 1 of 1}}
  %0 = dist.shard_amax %a ranges [1, 0, 16] : tensor<?xbf16, #dist.shard<@b>> -> tensor<1xf32>
  return
}

// -----

func.func @shard_amax(%a: tensor<?xbf16, #dist.shard<@b>>) {
  // expected-error @+1 {{(C3) gives 'tensor<2xf32>' of 1 ranges}}
  %0 = dist.shard_amax %a ranges [0, 0, 16] : tensor<?xbf16, #dist.shard<@b>> -> tensor<2xf32>
  return
}

// -----

func.func @shard_codes(%a: tensor<?xbf16, #dist.shard<@b>>, %m: tensor<1xf32>) {
  // expected-error @+1 {{(C1) gives 'tensor<?xf8E4M3FN, #dist.shard<@a>>' of 'tensor<?xbf16, #dist.shard<@b>>'}}
  %0, %1 = dist.shard_codes %a amax %m[0] ranges [0, 16] : tensor<?xbf16, #dist.shard<@b>>, tensor<1xf32> -> tensor<?xf8E4M3FN, #dist.shard<@a>>, tensor<2xf32>
  return
}

// -----

func.func @shard_codes(%a: tensor<?xbf16, #dist.shard<@b>>, %m: tensor<1xf32>) {
  // expected-error @+1 {{(C2) has the range 16 to 16}}
  %0, %1 = dist.shard_codes %a amax %m[0] ranges [16, 16] : tensor<?xbf16, #dist.shard<@b>>, tensor<1xf32> -> tensor<?xf8E4M3FN, #dist.shard<@b>>, tensor<2xf32>
  return
}

// -----

func.func @shard_codes(%a: tensor<?xbf16, #dist.shard<@b>>, %m: tensor<1xf32>) {
  // expected-error @+1 {{(C3) gives 1 scales of 1 ranges, from 1 on of 1 maxima}}
  %0, %1 = dist.shard_codes %a amax %m[1] ranges [0, 16] : tensor<?xbf16, #dist.shard<@b>>, tensor<1xf32> -> tensor<?xf8E4M3FN, #dist.shard<@b>>, tensor<2xf32>
  return
}

// -----

func.func @shard_codes(%a: tensor<?xbf16, #dist.shard<@b>>, %m: tensor<1xf32>) {
  // expected-error @+1 {{(C3) gives 'tensor<1xf32>' as the inverse of a scale and the scale, not two elements}}
  %0, %1 = dist.shard_codes %a amax %m[0] ranges [0, 16] : tensor<?xbf16, #dist.shard<@b>>, tensor<1xf32> -> tensor<?xf8E4M3FN, #dist.shard<@b>>, tensor<1xf32>
  return
}

// -----

func.func @all_gather_start(%b: tensor<?xf32, #dist.shard<@b>>) {
  // expected-error @+1 {{(C4) needs one dist.all_gather_done and no other reader}}
  %0 = dist.all_gather_start %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> !dist.pending<tensor<?xf32, #dist.full<@b>>>
  return
}

// -----

func.func @all_gather_start(%b: tensor<?xf32, #dist.shard<@b>>) {
  // expected-error @+1 {{(C2) the buckets differ: @a, @b}}
  %0 = dist.all_gather_start %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> !dist.pending<tensor<?xf32, #dist.full<@a>>>
  return
}

// -----

func.func @reduce_scatter_start(%b: tensor<?xf32, #dist.full<@b>>) {
  // expected-error @+1 {{(C4) needs one dist.reduce_scatter_done and no other reader}}
  %0 = dist.reduce_scatter_start %b axis "data" : tensor<?xf32, #dist.full<@b>> -> !dist.pending<tensor<?xf32, #dist.shard<@b>>>
  %1 = dist.reduce_scatter_done %0 : !dist.pending<tensor<?xf32, #dist.shard<@b>>>
  %2 = dist.reduce_scatter_done %0 : !dist.pending<tensor<?xf32, #dist.shard<@b>>>
  return
}

// -----

func.func @all_reduce_start(%x: tensor<f32>) {
  // expected-error @+1 {{(C1) types differ: 'tensor<f32>', 'tensor<f64>'}}
  %0 = dist.all_reduce_start %x axis "data" : tensor<f32> -> !dist.pending<tensor<f64>>
  %1 = dist.all_reduce_done %0 : !dist.pending<tensor<f64>>
  return
}

// -----

func.func @done(%p: !dist.pending<tensor<?xf32, #dist.full<@b>>>) {
  // expected-error @+1 {{(C1) operand must be the result of dist.all_gather_start}}
  %0 = dist.all_gather_done %p : !dist.pending<tensor<?xf32, #dist.full<@b>>>
  return
}

// -----

func.func @done(%p: !dist.pending<tensor<?xf32, #dist.shard<@b>>>) {
  // expected-error @+1 {{(C1) operand must be the result of dist.reduce_scatter_start}}
  %0 = dist.reduce_scatter_done %p : !dist.pending<tensor<?xf32, #dist.shard<@b>>>
  return
}

// -----

func.func @done(%p: !dist.pending<tensor<f32>>) {
  // expected-error @+1 {{(C1) operand must be the result of dist.all_reduce_start}}
  %0 = dist.all_reduce_done %p : !dist.pending<tensor<f32>>
  return
}

// -----

dist.bucket @b {decayed = 4 : i64, elements = 4 : i64, trainable, parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 2, 2>}]}

func.func @own_matrix(%x: tensor<2x2xbf16>) -> tensor<2x2xbf16> {
  // expected-error @+1 {{(C1) bucket @b has no parameter 'c'}}
  %y = dist.own_matrix %x of "c" in @b : tensor<2x2xbf16>
  return %y : tensor<2x2xbf16>
}
