// Rows that go to groups: the experts of a mixture. The ops have a header of their own (Experts.h): few files know of them.
#ifndef ZTC_GRAPH_EXPERTS
#define ZTC_GRAPH_EXPERTS
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_RouteOp : Graph_Op<"route", [Costed, LibraryCall]> {
  let summary = "The order of choices by expert: a stable counting sort.";
  let description = [{
        %order, %places, %starts = graph.route %choices : tensor<16x2xi32> -> tensor<32xi32>, tensor<16x2xi32>, tensor<5xi32>

    `choices` (T, K) names the K experts of each of T tokens; choice p = t K + k is element p of it. The R = T K choices are put into the order of their experts, those
    of one expert in the order of p: row r of the result is choice order[r], places[t, k] is the row of choice (t, k), and rows starts[e] to starts[e + 1] are those
    of expert e. Every row is some expert's: memory and work are known before any choice is.
    (C1) choices are 2-D. (C2) order is (T K), places is as choices, starts is 1-D of at least 2 elements.
    A choice outside of [0, E), which a top-k never gives, counts as the nearest expert.
  }];
  let arguments = (ins Graph_PlacesTensor:$choices);
  let results = (outs Graph_PlacesTensor:$order, Graph_PlacesTensor:$places, Graph_PlacesTensor:$starts);
  let assemblyFormat = "$choices attr-dict `:` type($choices) `->` type($order) `,` type($places) `,` type($starts)";
  let hasVerifier = 1;
}

class Graph_RowsByChoice<string mnemonic> : Graph_Op<mnemonic, [Differentiable, Costed, LibraryCall]> {
  let arguments = (ins Graph_FloatTensor:$x, Graph_PlacesTensor:$order, Graph_PlacesTensor:$places);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$x `by` $order `,` $places attr-dict `:` type($x) `,` type($order) `,` type($places) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_DispatchOp : Graph_RowsByChoice<"dispatch"> {
  let summary = "Rows of tokens, one for each choice, in the order of graph.route.";
  let description = [{
    y[r] = x[order[r] / K], of x (T, D) and places (T, K). `places` are for the gradient, which is a graph.combine.
    (C1) x is (T, D), places (T, K), order (T K). (C2) y is (T K, D), of x's type.
  }];
}

def Graph_CombineOp : Graph_RowsByChoice<"combine"> {
  let summary = "Of each token the sum of its choices' rows: the transpose of graph.dispatch.";
  let description = [{
    y[t] = sum_k x[places[t, k]], of x (T K, D), in order of k, in f32 and rounded once. `order` is for the gradient, which is a graph.dispatch.
    (C1) x is (T K, D), places (T, K), order (T K). (C2) y is (T, D), of x's type.
  }];
}

def Graph_GroupedMatmulOp : Graph_Op<"grouped_matmul", [Differentiable, Costed, Mixed, WithWorkspace]> {
  let summary = "Rows of a group times the group's matrix.";
  let description = [{
        %y = graph.grouped_matmul %x, %w rows %starts {transpose_b} : tensor<32x40xf32>, tensor<4x20x40xf32>, tensor<5xi32> -> tensor<32x20xf32>

    y[r, n] = sum_k x[r, k] * op(w[e])[k, n], where starts[e] <= r < starts[e + 1]; op transposes where the flag is set.
    (C1) x is (R, K), w (E, K, N), with transpose_b (E, N, K). (C2) starts is (E + 1), 0 = starts[0] <= ... <= starts[E] = R, as graph.route gives them.
    (C3) y is (R, N). (C4) equal element types of x and w; the result may have a wider one.
  }];
  let arguments = (ins Graph_FloatTensor:$x, Graph_FloatTensor:$w, Graph_PlacesTensor:$starts, UnitAttr:$transpose_b);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$x `,` $w `rows` $starts attr-dict `:` type($x) `,` type($w) `,` type($starts) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_GroupedOuterOp : Graph_Op<"grouped_outer", [Differentiable, Costed, Mixed, AccumulatingWithWorkspace]> {
  let summary = "Of each group the sum of its rows' outer products: the gradient of the matrices of graph.grouped_matmul.";
  let description = [{
        %dw = graph.grouped_outer %dy, %x rows %starts : tensor<32x20xf32>, tensor<32x40xf32>, tensor<5xi32> -> tensor<4x20x40xf32>

    y[e, m, n] = sum of a[r, m] * b[r, n] over starts[e] <= r < starts[e + 1], 0 where the group has no row.
    (C1) a is (R, M), b (R, N). (C2) starts is (E + 1), as graph.route gives them. (C3) y is (E, M, N). (C4) equal element types of a and b; the result may have a wider one.
  }];
  let arguments = (ins Graph_FloatTensor:$a, Graph_FloatTensor:$b, Graph_PlacesTensor:$starts);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$a `,` $b `rows` $starts attr-dict `:` type($a) `,` type($b) `,` type($starts) `->` type($y)";
  let hasVerifier = 1;
}
#endif
