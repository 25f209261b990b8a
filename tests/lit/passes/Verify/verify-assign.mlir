// Each post-condition of phase `assign`, broken once.
// RUN: ztc-opt %s --ztc-verify-assign -verify-diagnostics -split-input-file

// expected-error @+1 {{A1: a value of @a1 has no place}}
func.func @a1(%x: tensor<4xf32>) {
  return
}

// -----

plan.slot @x activations constant 4 x f32 {element_bytes = 4 : i64}
// expected-error @+1 {{A1: a value ends at byte 24 of slot "x", which has 16}}
func.func @a1(%x: tensor<4xf32> {plan.place = #plan.place<@x, 8>}) {
  return
}

// -----

plan.slot @x activations constant 8 x f32 {element_bytes = 4 : i64}
func.func @a2(%x: tensor<4xf32> {plan.place = #plan.place<@x, 0>}) -> tensor<2x2xf32> {
  // expected-error @+1 {{A2: lies at #plan.place<@x, 16>, what it aliases at #plan.place<@x, 0> plus 0}}
  %y = graph.reshape %x {plan.places = [#plan.place<@x, 16>]} : tensor<4xf32> -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

plan.slot @x activations constant 16 x f32 {element_bytes = 4 : i64}
plan.slot @y activations constant 16 x f32 {element_bytes = 4 : i64}
func.func @a3(%x: tensor<4x4xf32> {plan.place = #plan.place<@x, 0>}) -> tensor<4x4xf32> {
  %a = graph.matmul %x, %x {plan.places = [#plan.place<@y, 0>]} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  // expected-note @+1 {{by this value}}
  %b = graph.matmul %x, %a {plan.places = [#plan.place<@y, 0>]} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  // expected-error @+1 {{A3: reads what has been overwritten in slot "y"}}
  %c = graph.matmul %a, %x {plan.places = [#plan.place<@x, 0>]} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}

// -----

plan.slot @x activations constant 4 x f32 {element_bytes = 4 : i64}
// expected-error @+1 {{A4: result 0 does not lie in slot b.gradient}}
func.func @a4(%x: tensor<4xf32> {plan.place = #plan.place<@x, 0>}) -> (tensor<4xf32> {graph.result = #graph.result<gradient>, graph.bucket = @b}) {
  return %x : tensor<4xf32>
}

// -----

dist.bucket @b {decayed = 0 : i64, elements = 4 : i64, parameters = [{name = "n", offset = 0 : i64, shape = array<i64: 4>}]}
plan.slot @b.parameter parameters shard 4 x f32 {element_bytes = 4 : i64, persistent}
// expected-error @+1 {{A1: the own shard of slot "b.parameter", which holds no whole bucket}}
func.func @a1(%x: tensor<?xf32, #dist.shard<@b>> {plan.place = #plan.place<@b.parameter, 0, own_shard>}) {
  return
}

// -----

dist.bucket @b {decayed = 0 : i64, elements = 4 : i64, parameters = [{name = "n", offset = 0 : i64, shape = array<i64: 4>}]}
plan.slot @b.parameter parameters full 4 x f32 {element_bytes = 4 : i64, persistent}
func.func @a2(%x: tensor<?xf32, #dist.full<@b>> {plan.place = #plan.place<@b.parameter, 0>}) {
  // expected-error @+1 {{A2: lies at #plan.place<@b.parameter, 0>, what it aliases at #plan.place<@b.parameter, 0>}}
  %s = dist.own_shard %x {plan.places = [#plan.place<@b.parameter, 0>]} : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  return
}

// -----

dist.bucket @b {decayed = 0 : i64, elements = 4 : i64, parameters = [{name = "n", offset = 0 : i64, shape = array<i64: 4>}]}
plan.slot @b.parameter parameters shard 4 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @b.gathered gathered full 4 x f32 {element_bytes = 4 : i64}
func.func @a5(%x: tensor<?xf32, #dist.shard<@b>> {plan.place = #plan.place<@b.parameter, 0>}) {
  // expected-error @+1 {{A5: gathers #plan.place<@b.parameter, 0> to #plan.place<@b.gathered, 0>, which is another place at one rank}}
  %p = dist.all_gather_start %x axis "data" {plan.places = [#plan.place<@b.gathered, 0>]} : tensor<?xf32, #dist.shard<@b>> -> !dist.pending<tensor<?xf32, #dist.full<@b>>>
  %f = dist.all_gather_done %p {plan.places = [#plan.place<@b.gathered, 0>]} : !dist.pending<tensor<?xf32, #dist.full<@b>>>
  return
}
