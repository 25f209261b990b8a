// RUN: ztc-opt %s --ztc-derive-decode --split-input-file | FileCheck %s

// One token at one position: tables are looked up there, attention reads the rows that are kept and the one of the position.
// CHECK-LABEL: func.func @generate(
// CHECK-SAME:    -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}, tensor<2x4x2xf32> {graph.name = "keys.0", graph.result = #graph.result<cache>}, tensor<2x4x2xf32> {graph.name = "values.0", graph.result = #graph.result<cache>})
// CHECK:         %[[FIRST:.*]] = graph.slice %{{.*}}, [0, 0, 0, 0] : tensor<3x4x2x2xf32> -> tensor<1x4x2x2xf32>
// CHECK:         graph.transpose %[[FIRST]], [0, 2, 1, 3] : tensor<1x4x2x2xf32> -> tensor<1x2x4x2xf32>
// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    %[[TOKEN:[a-z0-9]+]]: tensor<1x1xi32> {graph.role = #graph.role<tokens>}, %[[POSITION:[a-z0-9]+]]: tensor<1xi32> {graph.role = #graph.role<position>}
// CHECK-SAME:    %[[KEYS:[a-z0-9]+]]: tensor<2x4x2xf32> {graph.name = "keys.0", graph.role = #graph.role<cache>}, %[[VALUES:[a-z0-9]+]]: tensor<2x4x2xf32> {graph.name = "values.0", graph.role = #graph.role<cache>})
// CHECK-SAME:    -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}, tensor<2x4x2xf32> {graph.name = "keys.0", graph.result = #graph.result<cache>}, tensor<2x4x2xf32> {graph.name = "values.0", graph.result = #graph.result<cache>})
// CHECK:         graph.embedding %{{.*}}, %[[TOKEN]] : tensor<16x8xf32>, tensor<1x1xi32> -> tensor<1x1x8xf32>
// CHECK:         graph.embedding %{{.*}}, %[[POSITION]] : tensor<4x1xf32>, tensor<1xi32> -> tensor<1x1xf32>
// CHECK:         graph.rope %{{.*}} : tensor<1x1x4x2xf32>, tensor<1x1xf32>
// CHECK:         %[[NEWKEYS:.*]] = graph.select %{{.*}}, %{{.*}}, %[[KEYS]]
// CHECK:         %[[NEWVALUES:.*]] = graph.select %{{.*}}, %{{.*}}, %[[VALUES]]
// CHECK:         %[[SCORES:.*]] = graph.matmul %{{.*}}, %[[NEWKEYS]] {graph.wide, transpose_b} : tensor<2x2x2xf32>, tensor<2x4x2xf32> -> tensor<2x2x4xf32>
// CHECK:         graph.softmax %{{.*}} {graph.wide} : tensor<2x2x4xf32>
// CHECK:         graph.matmul %{{.*}}, %[[NEWVALUES]] : tensor<2x2x4xf32>, tensor<2x4x2xf32> -> tensor<2x2x2xf32>
// CHECK:         return %{{.*}}, %[[NEWKEYS]], %[[NEWVALUES]]
func.func @generate(%tokens: tensor<3x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<1xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}, %k: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "k"},
                    %places: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "places"})
    -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %cos = graph.constant dense<[[1.0], [0.5], [0.25], [0.125]]> : tensor<4x1xf32>
  %words = graph.embedding %w, %tokens : tensor<16x8xf32>, tensor<3x4xi32> -> tensor<3x4x8xf32>
  %learned = graph.broadcast %places : tensor<4x8xf32> -> tensor<3x4x8xf32>
  %x = graph.add %words, %learned : tensor<3x4x8xf32>
  %flat = graph.reshape %x : tensor<3x4x8xf32> -> tensor<12x8xf32>
  %q = graph.reshape %flat : tensor<12x8xf32> -> tensor<3x4x4x2xf32>
  %turned = graph.rope %q, %cos, %cos : tensor<3x4x4x2xf32>, tensor<4x1xf32>
  %narrow = graph.matmul %flat, %k {transpose_b} : tensor<12x8xf32>, tensor<4x8xf32> -> tensor<12x4xf32>
  %keys = graph.reshape %narrow : tensor<12x4xf32> -> tensor<3x4x2x2xf32>
  %out = graph.attention %turned, %keys, %keys, 5.0e-01 {causal} : tensor<3x4x4x2xf32>, tensor<3x4x2x2xf32>
  %hidden = graph.reshape %out : tensor<3x4x4x2xf32> -> tensor<12x8xf32>
  %row = graph.embedding %hidden, %position : tensor<12x8xf32>, tensor<1xi32> -> tensor<1x8xf32>
  %logits = graph.matmul %row, %w {transpose_b} : tensor<1x8xf32>, tensor<16x8xf32> -> tensor<1x16xf32>
  return %logits : tensor<1x16xf32>
}

// -----

// A table of each row's experts, (T * 2, 1): of one row it has two, and indices count from its own. What computes in f32 with all rows does so with one.
// CHECK-LABEL: func.func @decode(
// CHECK:         %[[PLACE:.*]] = graph.add %{{.*}} : tensor<1x1xi32>
// CHECK:         %[[LOCAL:.*]] = graph.sub %[[PLACE]], %{{.*}} : tensor<1x1xi32>
// CHECK:         %[[TABLE:.*]] = graph.embedding_grad %[[LOCAL]], %{{.*}} {graph.wide} : tensor<1x1xi32>, tensor<1x1x1xf32> -> tensor<2x1xf32>
// CHECK:         graph.reshape %[[TABLE]] {graph.wide} : tensor<2x1xf32> -> tensor<1x1x1x2xf32>
func.func @generate(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<1xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %two = graph.constant dense<2> : tensor<1x4xi32>
  %row = graph.iota 1 : tensor<1x4xi32>
  %begin = graph.mul %row, %two : tensor<1x4xi32>
  %expert = graph.remainder %tokens, %two : tensor<1x4xi32>
  %place = graph.add %begin, %expert : tensor<1x4xi32>
  %one = graph.constant dense<1.0> : tensor<1x4x1xf32>
  %weights = graph.embedding_grad %place, %one {graph.wide} : tensor<1x4xi32>, tensor<1x4x1xf32> -> tensor<8x1xf32>
  %heads = graph.reshape %weights {graph.wide} : tensor<8x1xf32> -> tensor<1x4x1x2xf32>
  %out = graph.attention %heads, %heads, %heads, 1.0 {causal} : tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>
  %hidden = graph.reshape %out : tensor<1x4x1x2xf32> -> tensor<4x2xf32>
  %last = graph.embedding %hidden, %position : tensor<4x2xf32>, tensor<1xi32> -> tensor<1x2xf32>
  %logits = graph.matmul %last, %w {transpose_b} : tensor<1x2xf32>, tensor<16x2xf32> -> tensor<1x16xf32>
  return %logits : tensor<1x16xf32>
}

// -----

// Attention that sees later positions has no cache: they change what earlier rows are.
// CHECK-LABEL: module attributes {graph.no_cache = "graph.attention sees later positions"}
// CHECK-NOT: @decode
func.func @generate(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<1xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %x = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<1x4xi32> -> tensor<1x4x2xf32>
  %heads = graph.reshape %x : tensor<1x4x2xf32> -> tensor<1x4x1x2xf32>
  %out = graph.attention %heads, %heads, %heads, 1.0 : tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>
  %hidden = graph.reshape %out : tensor<1x4x1x2xf32> -> tensor<4x2xf32>
  %last = graph.embedding %hidden, %position : tensor<4x2xf32>, tensor<1xi32> -> tensor<1x2xf32>
  %logits = graph.matmul %last, %w {transpose_b} : tensor<1x2xf32>, tensor<16x2xf32> -> tensor<1x16xf32>
  return %logits : tensor<1x16xf32>
}

// -----

// Nor has a model that mixes positions in another way: here by the difference of neighbours.
// CHECK-LABEL: module attributes {graph.no_cache = "graph.slice takes some of the positions"}
// CHECK-NOT: @decode
func.func @generate(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<1xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %x = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<1x4xi32> -> tensor<1x4x2xf32>
  %before = graph.slice %x, [0, 0, 0] : tensor<1x4x2xf32> -> tensor<1x3x2xf32>
  %shifted = graph.pad %before, [0, 1, 0] : tensor<1x3x2xf32> -> tensor<1x4x2xf32>
  %change = graph.sub %x, %shifted : tensor<1x4x2xf32>
  %hidden = graph.reshape %change : tensor<1x4x2xf32> -> tensor<4x2xf32>
  %last = graph.embedding %hidden, %position : tensor<4x2xf32>, tensor<1xi32> -> tensor<1x2xf32>
  %logits = graph.matmul %last, %w {transpose_b} : tensor<1x2xf32>, tensor<16x2xf32> -> tensor<1x16xf32>
  return %logits : tensor<1x16xf32>
}

// -----

// Capped scores are capped of one row, too, and not rounded between.
// CHECK-LABEL: func.func @decode(
// CHECK:         %[[SCORES:.*]] = graph.matmul %{{.*}} {graph.wide, transpose_b} : tensor<1x1x2xf32>, tensor<1x4x2xf32> -> tensor<1x1x4xf32>
// CHECK:         %[[PARTS:.*]] = graph.div %[[SCORES]], %{{.*}} {graph.wide} : tensor<1x1x4xf32>
// CHECK:         %[[BENT:.*]] = graph.tanh %[[PARTS]] {graph.wide} : tensor<1x1x4xf32>
// CHECK:         %[[CAPPED:.*]] = graph.mul %[[BENT]], %{{.*}} {graph.wide} : tensor<1x1x4xf32>
// CHECK:         graph.select %{{.*}}, %[[CAPPED]], %{{.*}} {graph.wide}
func.func @generate(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<1xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %x = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<1x4xi32> -> tensor<1x4x2xf32>
  %heads = graph.reshape %x : tensor<1x4x2xf32> -> tensor<1x4x1x2xf32>
  %out = graph.attention %heads, %heads, %heads, 1.0 {causal, softcap = 2.0} : tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>
  %hidden = graph.reshape %out : tensor<1x4x1x2xf32> -> tensor<4x2xf32>
  %last = graph.embedding %hidden, %position : tensor<4x2xf32>, tensor<1xi32> -> tensor<1x2xf32>
  %logits = graph.matmul %last, %w {transpose_b} : tensor<1x2xf32>, tensor<16x2xf32> -> tensor<1x16xf32>
  return %logits : tensor<1x16xf32>
}

// -----

// Attention that is written out: keys, here also the values, are kept before heads are repeated; the mask hides what is later.
// CHECK-LABEL: func.func @generate(%arg0: tensor<2x4xi32>
// CHECK-SAME:    tensor<1x4x1x2xf32> {graph.name = "keys.0", graph.result = #graph.result<cache>})
// CHECK-LABEL: func.func @decode(
// CHECK:         %[[NEWKEYS:.*]] = graph.select %{{.*}} : tensor<1x4x1x2xi1>, tensor<1x4x1x2xf32>
// CHECK:         graph.broadcast %{{.*}} : tensor<1x1x4x2xf32> -> tensor<1x2x4x2xf32>
// CHECK:         graph.matmul %{{.*}} {transpose_b} : tensor<1x2x1x2xf32>, tensor<1x2x4x2xf32> -> tensor<1x2x1x4xf32>
// CHECK:         %[[HERE:.*]] = graph.compare le, %{{.*}} : tensor<1x4xi32> -> tensor<1x4xi1>
// CHECK:         graph.broadcast %[[HERE]] : tensor<1x4xi1> -> tensor<1x2x1x4xi1>
// CHECK:         graph.softmax %{{.*}} : tensor<1x2x1x4xf32>
func.func @generate(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<1xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %x = graph.embedding %w, %tokens : tensor<16x4xf32>, tensor<2x4xi32> -> tensor<2x4x4xf32>
  %q = graph.reshape %x : tensor<2x4x4xf32> -> tensor<2x4x2x2xf32>
  %queries = graph.transpose %q, [0, 2, 1, 3] : tensor<2x4x2x2xf32> -> tensor<2x2x4x2xf32>
  %half = graph.slice %q, [0, 0, 1, 0] : tensor<2x4x2x2xf32> -> tensor<2x4x1x2xf32>
  %one = graph.transpose %half, [0, 2, 1, 3] : tensor<2x4x1x2xf32> -> tensor<2x1x4x2xf32>
  %keys = graph.broadcast %one : tensor<2x1x4x2xf32> -> tensor<2x2x4x2xf32>
  %scores = graph.matmul %queries, %keys {transpose_b} : tensor<2x2x4x2xf32>, tensor<2x2x4x2xf32> -> tensor<2x2x4x4xf32>
  %i = graph.iota 0 : tensor<4x4xi32>
  %j = graph.iota 1 : tensor<4x4xi32>
  %seen = graph.compare le, %j, %i : tensor<4x4xi32> -> tensor<4x4xi1>
  %seenAll = graph.broadcast %seen : tensor<4x4xi1> -> tensor<2x2x4x4xi1>
  %lowest = graph.constant dense<0xFF800000> : tensor<2x2x4x4xf32>
  %masked = graph.select %seenAll, %scores, %lowest : tensor<2x2x4x4xi1>, tensor<2x2x4x4xf32>
  %p = graph.softmax %masked : tensor<2x2x4x4xf32>
  %mixed = graph.matmul %p, %keys : tensor<2x2x4x4xf32>, tensor<2x2x4x2xf32> -> tensor<2x2x4x2xf32>
  %back = graph.transpose %mixed, [0, 2, 1, 3] : tensor<2x2x4x2xf32> -> tensor<2x4x2x2xf32>
  %hidden = graph.reshape %back : tensor<2x4x2x2xf32> -> tensor<8x4xf32>
  %last = graph.embedding %hidden, %position : tensor<8x4xf32>, tensor<1xi32> -> tensor<1x4xf32>
  %logits = graph.matmul %last, %w {transpose_b} : tensor<1x4xf32>, tensor<16x4xf32> -> tensor<1x16xf32>
  return %logits : tensor<1x16xf32>
}

// -----

// Where the mask lets rows see the position after theirs there is none.
// CHECK-LABEL: module attributes {graph.no_cache = "graph.softmax runs over positions that no known mask hides"}
// CHECK-NOT: @decode
func.func @generate(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<1xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %x = graph.embedding %w, %tokens : tensor<16x4xf32>, tensor<1x4xi32> -> tensor<1x4x4xf32>
  %scores = graph.matmul %x, %x {transpose_b} : tensor<1x4x4xf32>, tensor<1x4x4xf32> -> tensor<1x4x4xf32>
  %one = graph.constant dense<1> : tensor<1x4x4xi32>
  %i = graph.iota 1 : tensor<1x4x4xi32>
  %next = graph.add %i, %one : tensor<1x4x4xi32>
  %j = graph.iota 2 : tensor<1x4x4xi32>
  %seen = graph.compare le, %j, %next : tensor<1x4x4xi32> -> tensor<1x4x4xi1>
  %lowest = graph.constant dense<0xFF800000> : tensor<1x4x4xf32>
  %masked = graph.select %seen, %scores, %lowest : tensor<1x4x4xi1>, tensor<1x4x4xf32>
  %p = graph.softmax %masked : tensor<1x4x4xf32>
  %mixed = graph.matmul %p, %x : tensor<1x4x4xf32>, tensor<1x4x4xf32> -> tensor<1x4x4xf32>
  %hidden = graph.reshape %mixed : tensor<1x4x4xf32> -> tensor<4x4xf32>
  %last = graph.embedding %hidden, %position : tensor<4x4xf32>, tensor<1xi32> -> tensor<1x4xf32>
  %logits = graph.matmul %last, %w {transpose_b} : tensor<1x4xf32>, tensor<16x4xf32> -> tensor<1x16xf32>
  return %logits : tensor<1x16xf32>
}

// -----

// Several sequences go on together: a token, a position and a cache of each; one that rests keeps its cache. Rows meet a weight in one product.
// CHECK-LABEL: func.func @generate(%arg0: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %arg1: tensor<2xi32> {graph.role = #graph.role<position>}
// CHECK-SAME:    %[[BEFORE:[a-z0-9]+]]: tensor<2x1x4x2xf32> {graph.name = "keys.0", graph.role = #graph.role<cache>}
// CHECK:         %[[REFILLED:.*]] = graph.compare ge, %arg1, %{{.*}} : tensor<2xi32> -> tensor<2xi1>
// CHECK:         graph.select %{{.*}}, %{{.*}}, %[[BEFORE]] : tensor<2x1x4x2xi1>, tensor<2x1x4x2xf32>
// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    tensor<1x1xi32> {graph.role = #graph.role<tokens>}, %{{[a-z0-9]+}}: tensor<1xi32> {graph.role = #graph.role<position>}
// CHECK-SAME:    -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}, tensor<1x4x2xf32> {graph.name = "keys.0", graph.result = #graph.result<cache>}
// CHECK-LABEL: func.func @decode_rows(
// CHECK-SAME:    %[[TOKENS:[a-z0-9]+]]: tensor<2x1xi32> {graph.role = #graph.role<tokens>}, %[[POSITIONS:[a-z0-9]+]]: tensor<2xi32> {graph.role = #graph.role<position>}, %[[W:[a-z0-9]+]]:
// CHECK-SAME:    %[[KEYS:[a-z0-9]+]]: tensor<2x1x4x2xf32> {graph.name = "keys.0", graph.role = #graph.role<cache>}, %{{[a-z0-9]+}}: tensor<2x1x4x2xf32> {graph.name = "values.0", graph.role = #graph.role<cache>})
// CHECK-SAME:    -> (tensor<2x16xf32> {graph.result = #graph.result<logits>}, tensor<2x1x4x2xf32> {graph.name = "keys.0", graph.result = #graph.result<cache>}, tensor<2x1x4x2xf32> {graph.name = "values.0", graph.result = #graph.result<cache>})
// CHECK:         %[[COLUMN:.*]] = graph.reshape %[[POSITIONS]] : tensor<2xi32> -> tensor<2x1xi32>
// CHECK:         %[[ACTIVE:.*]] = graph.compare ge, %[[COLUMN]], %{{.*}} : tensor<2x1xi32> -> tensor<2x1xi1>
// CHECK:         graph.select %[[ACTIVE]], %[[COLUMN]]
// CHECK:         graph.embedding %[[W]], %{{.*}} : tensor<16x2xf32>, tensor<2x1x1xi32> -> tensor<2x1x1x2xf32>
// CHECK:         graph.rope %{{.*}} : tensor<1x2x1x2xf32>, tensor<2x1xf32>
// CHECK:         %[[GUARDED:.*]] = graph.logic and, %{{.*}} : tensor<2x1x4x2xi1>
// CHECK:         graph.select %[[GUARDED]], %{{.*}}, %[[KEYS]]
// CHECK:         graph.matmul %{{.*}} {graph.wide, transpose_b} : tensor<2x1x2xf32>, tensor<2x4x2xf32> -> tensor<2x1x4xf32>
// CHECK:         graph.matmul %{{.*}}, %[[W]] {transpose_b} : tensor<2x2xf32>, tensor<16x2xf32> -> tensor<2x16xf32>
func.func @generate(%tokens: tensor<2x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<2xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<2x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %cos = graph.constant dense<[[1.0], [0.5], [0.25], [0.125]]> : tensor<4x1xf32>
  %x = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<2x4xi32> -> tensor<2x4x2xf32>
  %heads = graph.reshape %x : tensor<2x4x2xf32> -> tensor<2x4x1x2xf32>
  %turned = graph.rope %heads, %cos, %cos : tensor<2x4x1x2xf32>, tensor<4x1xf32>
  %out = graph.attention %turned, %turned, %heads, 1.0 {causal} : tensor<2x4x1x2xf32>, tensor<2x4x1x2xf32>
  %hidden = graph.reshape %out : tensor<2x4x1x2xf32> -> tensor<8x2xf32>
  %four = graph.constant dense<4> : tensor<2xi32>
  %sequence = graph.iota 0 : tensor<2xi32>
  %begin = graph.mul %sequence, %four : tensor<2xi32>
  %index = graph.add %position, %begin : tensor<2xi32>
  %last = graph.embedding %hidden, %index : tensor<8x2xf32>, tensor<2xi32> -> tensor<2x2xf32>
  %logits = graph.matmul %last, %w {transpose_b} : tensor<2x2xf32>, tensor<16x2xf32> -> tensor<2x16xf32>
  return %logits : tensor<2x16xf32>
}

// -----

// Keys and values that a later layer reads too are kept once.
// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    tensor<2x4x2xf32> {graph.name = "keys.0", graph.role = #graph.role<cache>}, %{{[a-z0-9]+}}: tensor<2x4x2xf32> {graph.name = "values.0", graph.role = #graph.role<cache>})
// CHECK-COUNT-2: graph.softmax
func.func @generate(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<1xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}, %k: tensor<4x8xf32> {graph.role = #graph.role<parameter>, graph.name = "k"})
    -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %words = graph.embedding %w, %tokens : tensor<16x8xf32>, tensor<1x4xi32> -> tensor<1x4x8xf32>
  %flat = graph.reshape %words : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %q = graph.reshape %flat : tensor<4x8xf32> -> tensor<1x4x4x2xf32>
  %narrow = graph.matmul %flat, %k {transpose_b} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x4xf32>
  %keys = graph.reshape %narrow : tensor<4x4xf32> -> tensor<1x4x2x2xf32>
  %first = graph.attention %q, %keys, %keys, 5.0e-01 {causal} : tensor<1x4x4x2xf32>, tensor<1x4x2x2xf32>
  %second = graph.attention %first, %keys, %keys, 5.0e-01 {causal, window = 2 : i64} : tensor<1x4x4x2xf32>, tensor<1x4x2x2xf32>
  %hidden = graph.reshape %second : tensor<1x4x4x2xf32> -> tensor<4x8xf32>
  %row = graph.embedding %hidden, %position : tensor<4x8xf32>, tensor<1xi32> -> tensor<1x8xf32>
  %logits = graph.matmul %row, %w {transpose_b} : tensor<1x8xf32>, tensor<16x8xf32> -> tensor<1x16xf32>
  return %logits : tensor<1x16xf32>
}

// -----

// A state is one matrix that each step replaces, in f32 in every precision; of a convolution the last rows are kept, each at its position modulo their number.
// @generate gives both as they are after the position, whatever stands behind it.
// CHECK-LABEL: func.func @generate(
// CHECK-SAME:    -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}, tensor<3x2xf32> {graph.name = "windows.0", graph.result = #graph.result<cache>}, tensor<1x2x2xf32> {graph.name = "states.0", graph.result = #graph.result<cache>, graph.wide})
// CHECK:         %[[KNOWN:.*]] = graph.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x4x1x2xi1>, tensor<1x4x1x2xf32>
// CHECK:         graph.linear_attention %{{.*}}, %[[KNOWN]], %{{.*}}, 1.000000e+00
// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    %[[WINDOW:[a-z0-9]+]]: tensor<3x2xf32> {graph.name = "windows.0", graph.role = #graph.role<cache>}, %[[STATE:[a-z0-9]+]]: tensor<1x2x2xf32> {graph.name = "states.0", graph.role = #graph.role<cache>, graph.wide})
// CHECK:         %[[UPDATED:.*]] = graph.select %{{.*}}, %{{.*}}, %[[WINDOW]] : tensor<3x2xi1>, tensor<3x2xf32>
// CHECK:         graph.embedding %[[UPDATED]], %{{.*}} : tensor<3x2xf32>, tensor<3xi32> -> tensor<3x2xf32>
// CHECK:         graph.mul %[[STATE]], %{{.*}} {graph.wide} : tensor<1x2x2xf32>
// CHECK:         graph.matmul %{{.*}} {graph.wide, graph.wide_factors, transpose_a} : tensor<1x1x2xf32>, tensor<1x1x2xf32> -> tensor<1x2x2xf32>
// CHECK:         graph.select %{{.*}}, %{{.*}}, %[[STATE]] {graph.wide} : tensor<1x2x2xi1>, tensor<1x2x2xf32>
func.func @generate(%tokens: tensor<1x4xi32> {graph.role = #graph.role<tokens>}, %position: tensor<1xi32> {graph.role = #graph.role<position>},
                    %w: tensor<16x2xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}, %c: tensor<2x3xf32> {graph.role = #graph.role<parameter>, graph.name = "c"})
    -> (tensor<1x16xf32> {graph.result = #graph.result<logits>}) attributes {graph.entry = #graph.entry<generate>} {
  %words = graph.embedding %w, %tokens : tensor<16x2xf32>, tensor<1x4xi32> -> tensor<1x4x2xf32>
  %mixed = graph.causal_convolution %words, %c : tensor<1x4x2xf32>, tensor<2x3xf32>
  %q = graph.reshape %mixed : tensor<1x4x2xf32> -> tensor<1x4x1x2xf32>
  %decay = graph.slice %q, [0, 0, 0, 0] : tensor<1x4x1x2xf32> -> tensor<1x4x1x1xf32>
  %y, %state = graph.linear_attention %q, %q, %q, 1.0 decay %decay : tensor<1x4x1x1xf32> beta %decay : tensor<1x4x1x1xf32> {chunk = 2 : i64, delta}
    : tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32>, tensor<1x4x1x2xf32> -> tensor<1x4x1x2xf32>, tensor<1x1x2x2xf32>
  %hidden = graph.reshape %y : tensor<1x4x1x2xf32> -> tensor<4x2xf32>
  %row = graph.embedding %hidden, %position : tensor<4x2xf32>, tensor<1xi32> -> tensor<1x2xf32>
  %logits = graph.matmul %row, %w {transpose_b} : tensor<1x2xf32>, tensor<16x2xf32> -> tensor<1x16xf32>
  return %logits : tensor<1x16xf32>
}
