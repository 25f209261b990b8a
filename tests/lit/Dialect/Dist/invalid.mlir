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
