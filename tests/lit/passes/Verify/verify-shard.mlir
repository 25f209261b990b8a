// Each post-condition of phase `shard`, broken once.
// RUN: ztc-opt %s --ztc-verify-shard -verify-diagnostics -split-input-file

// expected-error @+1 {{S1: argument 0 is a single parameter}}
func.func @eval(%w: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) attributes {graph.entry = #graph.entry<eval>} {
  return
}

// -----

// expected-error @+1 {{S2: argument 0 (parameter_bucket) names no dist.bucket}}
func.func @eval(%b: tensor<4xf32> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<eval>} {
  return
}

// -----

// Without a mesh a bucket has its length.
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S2: argument 0 (parameter_bucket) has type 'tensor<4xf32>', expected 'tensor<8xf32>'}}
func.func @eval(%b: tensor<4xf32> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<eval>} {
  return
}

// -----

module attributes {dist.zero = 3 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// A full parameter at stage 3.
// expected-error @+1 {{S2: argument 0 (parameter_bucket) has type 'tensor<?xf32, #dist.full<@b>>', expected 'tensor<?xf32, #dist.shard<@b>>'}}
func.func @eval(%b: tensor<?xf32, #dist.full<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<eval>} {
  return
}
}

// -----

module attributes {dist.zero = 0 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// An update sees reduced gradients: shards, at stage 0 too.
// expected-error @+1 {{S2: argument 0 (gradient_bucket) has type 'tensor<?xf32, #dist.full<@b>>', expected 'tensor<?xf32, #dist.shard<@b>>'}}
func.func @update(%g: tensor<?xf32, #dist.full<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<update>} {
  return
}
}

// -----

// expected-note @+1 {{the other one is "a"}}
dist.bucket @a {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S3: "w" stands in two buckets}}
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}

// -----

// A tied parameter is one entry with two names.
// expected-error @+1 {{S3: "head" stands in it twice}}
dist.bucket @b {decayed = 0 : i64, elements = 24 : i64, parameters = [{name = "embed", offset = 0 : i64, shape = array<i64: 8>, tied = ["head"]},
  {name = "head", offset = 16 : i64, shape = array<i64: 8>}]}

// -----

dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S4: returns 0 results of kind gradient for bucket "b"}}
func.func @microstep() attributes {graph.entry = #graph.entry<microstep>} {
  return
}

// -----

module attributes {dist.zero = 1 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S4: returns 1 results of kind gradient for bucket "b"}}
func.func @microstep(%g: tensor<?xf32, #dist.full<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.full<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  return %g : tensor<?xf32, #dist.full<@b>>
}
}

// -----

module attributes {dist.zero = 1 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S4: returns 0 results of kind reduced_gradient for bucket "b"}}
func.func @microstep(%g: tensor<?xf32, #dist.full<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.full<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  return %g : tensor<?xf32, #dist.full<@b>>
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S4: result 0 (gradient) has type 'tensor<?xf32, #dist.full<@b>>', expected 'tensor<?xf32, #dist.shard<@b>>'}}
func.func @microstep(%g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}, %f: tensor<?xf32, #dist.full<@b>>) -> (tensor<?xf32, #dist.full<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  return %f : tensor<?xf32, #dist.full<@b>>
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S5: the gradient of "b" is not reduced}}
func.func @microstep(%g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  return %g : tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @microstep(%a: tensor<8xf32>, %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  %p = dist.pack %a at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  %r = dist.reduce_scatter %p axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  // expected-error @+1 {{S5: reduces the gradient of @b a second time}}
  %t = dist.reduce_scatter %p axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  %s = graph.accumulate %g, %r {first_writes} : tensor<?xf32, #dist.shard<@b>>
  return %s : tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @microstep(%a: tensor<8xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %p = dist.pack %a at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  // expected-error @+1 {{S5: reduces the gradient of @b, which is not trainable}}
  %r = dist.reduce_scatter %p axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  return
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @microstep(%p: tensor<?xf32, #dist.full<@b>>, %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  // expected-error @+1 {{S5: reduces what is not a dist.pack of local gradients}}
  %r = dist.reduce_scatter %p axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  %s = graph.accumulate %g, %r {first_writes} : tensor<?xf32, #dist.shard<@b>>
  return %s : tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @microstep(%a: tensor<8xf32>, %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  %p = dist.pack %a at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  // expected-error @+1 {{S5: reduces the last micro-step's gradient only where none are kept (ZeRO-2)}}
  %r = dist.reduce_scatter %p axis "data" {only_last} : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  %s = graph.accumulate %g, %r {first_writes} : tensor<?xf32, #dist.shard<@b>>
  return %s : tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @microstep(%a: tensor<8xf32>, %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  %p = dist.pack %a at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  // expected-error @+1 {{S5: is not what is added to the gradient of "b"}}
  %r = dist.reduce_scatter %p axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  return %r : tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 0 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @microstep(%a: tensor<8xf32>, %g: tensor<?xf32, #dist.full<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.full<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}, tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<reduced_gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  %p = dist.pack %a at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  // expected-error @+1 {{S5: reduces every micro-step's gradient where they add up first (ZeRO-0)}}
  %r = dist.reduce_scatter %p axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  return %p, %r : tensor<?xf32, #dist.full<@b>>, tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 0 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @microstep(%a: tensor<8xf32>, %g: tensor<?xf32, #dist.full<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.full<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}, tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<reduced_gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  %p = dist.pack %a at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  // expected-error @+1 {{S5: neither reads the returned gradient nor is returned as the reduced one}}
  %r = dist.reduce_scatter %p axis "data" {only_last} : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  return %g, %r : tensor<?xf32, #dist.full<@b>>, tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S4: returns 0 results of kind reduced_gradient for bucket "b"}}
func.func @microstep(%a: tensor<8xf32>, %w: tensor<?xbf16, #dist.full<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}, %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  %p = dist.pack %a at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  %wire = graph.cast %p : tensor<?xf32, #dist.full<@b>> -> tensor<?xbf16, #dist.full<@b>>
  %s = dist.reduce_scatter %wire axis "data" : tensor<?xbf16, #dist.full<@b>> -> tensor<?xbf16, #dist.shard<@b>>
  %wide = graph.cast %s : tensor<?xbf16, #dist.shard<@b>> -> tensor<?xf32, #dist.shard<@b>>
  %sum = graph.accumulate %g, %wide {first_writes} : tensor<?xf32, #dist.shard<@b>>
  return %sum : tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @microstep(%a: tensor<8xf32>, %w: tensor<?xbf16, #dist.full<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}, %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<gradient>, graph.bucket = @b}, tensor<?xbf16, #dist.shard<@b>> {graph.result = #graph.result<reduced_gradient>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<microstep>} {
  %p = dist.pack %a at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  %wire = graph.cast %p : tensor<?xf32, #dist.full<@b>> -> tensor<?xbf16, #dist.full<@b>>
  %s = dist.reduce_scatter %wire axis "data" : tensor<?xbf16, #dist.full<@b>> -> tensor<?xbf16, #dist.shard<@b>>
  %wide = graph.cast %s : tensor<?xbf16, #dist.shard<@b>> -> tensor<?xf32, #dist.shard<@b>>
  // expected-error @+1 {{S5: is not what is returned, rounded, as the reduced gradient of "b"}}
  %sum = graph.accumulate %g, %wide {first_writes} : tensor<?xf32, #dist.shard<@b>>
  return %sum, %s : tensor<?xf32, #dist.shard<@b>>, tensor<?xbf16, #dist.shard<@b>>
}
}

// -----

func.func @eval(%s: tensor<?xf32, #dist.shard<@a>>) attributes {graph.entry = #graph.entry<eval>} {
  // expected-error @+1 {{S6: gives the layout of @a, which is not a dist.bucket}}
  %f = dist.all_gather %s axis "data" : tensor<?xf32, #dist.shard<@a>> -> tensor<?xf32, #dist.full<@a>>
  return
}

// -----

module attributes {dist.zero = 1 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @eval(%b: tensor<?xf32, #dist.full<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<eval>} {
  // expected-error @+1 {{S6: covers elements 4 to 12 of 8}}
  %v = dist.view %b[4] : tensor<?xf32, #dist.full<@b>> -> tensor<8xf32>
  return
}
}

// -----

module attributes {dist.zero = 1 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @eval(%a: tensor<8xf32>) attributes {graph.entry = #graph.entry<eval>} {
  // expected-error @+1 {{S6: the last part ends at 12, the bucket at 8}}
  %p = dist.pack %a at [4] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  return
}
}

// -----

module attributes {dist.zero = 1 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @eval(%x: tensor<f32>) attributes {graph.entry = #graph.entry<eval>} {
  // expected-error @+1 {{S6: the mesh has no axis "tensor"}}
  %y = dist.all_reduce %x axis "tensor" : tensor<f32>
  return
}
}

// -----

module attributes {dist.zero = 3 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @eval(%b: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) -> (tensor<2x4xf32>, tensor<8xf32>) attributes {graph.entry = #graph.entry<eval>} {
  %f = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.full<@b>>
  %v = dist.view %f[0] : tensor<?xf32, #dist.full<@b>> -> tensor<8xf32>
  %w = graph.reshape %v : tensor<8xf32> -> tensor<2x4xf32>
  // expected-note @+1 {{it is gathered again here}}
  %h = dist.all_gather %b axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.full<@b>>
  %u = dist.view %h[0] : tensor<?xf32, #dist.full<@b>> -> tensor<8xf32>
  // expected-error @+1 {{S7: reads an earlier gather of @b than the last}}
  %y = graph.exp %w : tensor<2x4xf32>
  return %y, %u : tensor<2x4xf32>, tensor<8xf32>
}
}

// -----

module attributes {dist.zero = 3 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @update(%p: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}, %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}, %x: tensor<?xf32, #dist.full<@b>>) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<parameter>, graph.bucket = @b}, tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.bucket = @b}, tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.bucket = @b}) attributes {graph.entry = #graph.entry<update>} {
  // expected-error @+1 {{S8: sums the squares of 'tensor<?xf32, #dist.full<@b>>', which is not a shard}}
  %s = graph.sum_squares %x : tensor<?xf32, #dist.full<@b>> -> tensor<f32>
  %n = dist.all_reduce %s axis "data" : tensor<f32>
  return %p, %p, %p : tensor<?xf32, #dist.shard<@b>>, tensor<?xf32, #dist.shard<@b>>, tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 3 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S8: the norm takes one all_reduce, found 0}}
func.func @update(%p: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}, %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}, %x: tensor<?xf32, #dist.full<@b>>) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<parameter>, graph.bucket = @b}, tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.bucket = @b}, tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.bucket = @b}) attributes {graph.entry = #graph.entry<update>} {
  %s = graph.sum_squares %g : tensor<?xf32, #dist.shard<@b>> -> tensor<f32>
  return %p, %p, %p : tensor<?xf32, #dist.shard<@b>>, tensor<?xf32, #dist.shard<@b>>, tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 3 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @update(%p: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}, %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}, %x: tensor<?xf32, #dist.full<@b>>) -> (tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<parameter>, graph.bucket = @b}, tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<state>, graph.state = "exp_avg", graph.bucket = @b}, tensor<?xf32, #dist.shard<@b>> {graph.result = #graph.result<state>, graph.state = "exp_avg_sq", graph.bucket = @b}) attributes {graph.entry = #graph.entry<update>} {
  // expected-error @+1 {{S8: does not end in the all_reduce of the norm alone}}
  %s = graph.sum_squares %g : tensor<?xf32, #dist.shard<@b>> -> tensor<f32>
  %n = dist.all_reduce %s axis "data" : tensor<f32>
  %y = graph.sqrt %s : tensor<f32>
  return %p, %p, %p : tensor<?xf32, #dist.shard<@b>>, tensor<?xf32, #dist.shard<@b>>, tensor<?xf32, #dist.shard<@b>>
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @eval(%b: tensor<?xbf16, #dist.full<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<eval>} {
  return
}
// expected-error @+1 {{S9: takes parameters of @b as 'f32', another function as 'bf16'}}
func.func @generate(%b: tensor<?xf32, #dist.full<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<generate>} {
  return
}
}

// -----

module attributes {dist.zero = 1 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S9: argument 1 (gradient_bucket) of @b holds 'f32', expected 'bf16'}}
func.func @update(%p: tensor<?xbf16, #dist.full<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b},
                  %g: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<gradient_bucket>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<update>} {
  return
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S9: argument 1 (master_bucket) of @b holds 'f32', expected 'i16'}}
func.func @update(%p: tensor<?xbf16, #dist.full<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b},
                  %m: tensor<?xf32, #dist.shard<@b>> {graph.role = #graph.role<master_bucket>, graph.bucket = @b}) attributes {graph.entry = #graph.entry<update>} {
  return
}
}

// -----

module attributes {dist.zero = 2 : i64} {
dist.mesh @mesh ["data"]
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
func.func @eval(%p: tensor<?xbf16, #dist.full<@b>> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @b}, %w: tensor<8xf32>) attributes {graph.entry = #graph.entry<eval>} {
  %g = dist.pack %w at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@b>>
  // expected-error @+1 {{S9: sends gradients of 'f32' for parameters of 'bf16'}}
  %s = dist.reduce_scatter %g axis "data" : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>
  return
}
}
