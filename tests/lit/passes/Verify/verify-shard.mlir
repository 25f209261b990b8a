// Each post-condition of phase `shard`, broken once.
// RUN: ztc-opt %s --ztc-verify-shard -verify-diagnostics -split-input-file

// expected-error @+1 {{S1: argument 0 is a single parameter}}
func.func @eval(%w: tensor<4xf32> {graph.role = "parameter", graph.name = "w"}) {
  return
}

// -----

// expected-error @+1 {{S2: argument 0 (parameter_bucket) names no dist.bucket}}
func.func @eval(%b: tensor<4xf32> {graph.role = "parameter_bucket", graph.bucket = @b}) {
  return
}

// -----

dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S2: argument 0 has type 'tensor<4xf32>', its bucket 8 elements}}
func.func @eval(%b: tensor<4xf32> {graph.role = "parameter_bucket", graph.bucket = @b}) {
  return
}

// -----

// expected-note @+1 {{the other one is "a"}}
dist.bucket @a {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S3: "w" stands in two buckets}}
dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}

// -----

dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S4: returns 0 results of kind gradient for bucket "b"}}
func.func @microstep() {
  return
}

// -----

dist.bucket @b {decayed = 0 : i64, elements = 8 : i64, trainable, parameters = [{name = "w", offset = 0 : i64, shape = array<i64: 8>}]}
// expected-error @+1 {{S4: result 0, the gradients of @b, is no dist.pack}}
func.func @microstep(%b: tensor<8xf32> {graph.role = "gradient_bucket", graph.bucket = @b}) -> (tensor<8xf32> {graph.result = "gradient", graph.bucket = @b}) {
  return %b : tensor<8xf32>
}
