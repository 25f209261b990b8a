// Products with a sum. The ops have a header of their own (MatmulAdd.h): few files know of them.
#ifndef ZTC_GRAPH_MATMUL_ADD
#define ZTC_GRAPH_MATMUL_ADD
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_MatmulAddOp : Graph_Op<"matmul_add", [Costed, Mixed, WithWorkspace, AllTypesMatch<["c", "y"]>]> {
  let summary = "op(a) * op(b) + c over the last two dimensions, plus a bias where there is one, rounded once.";
  let description = [{
        %y = graph.matmul_add %x, %w, %residual {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16>
        %z = graph.matmul_add %x, %w, %residual bias %v : tensor<6xbf16> {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16>

    y[..., m, n] = sum_k op(a)[..., m, k] * op(b)[..., k, n] + c[..., m, n]: the f32 sum over k, plus c, rounded once to y's type, which is c's.
    (C1) equal ranks of at least 2. (C2) equal leading dimensions. (C3) equal contraction sizes. (C4) c, and so y, is (..., M, N).
    With a bias y[m, n] = (sum_k op(a)[m, k] * op(b)[k, n] + c[m, n]) + bias[n]: both sums are f32, in this order, which is that of a GPU's library (beta C, then the
    epilogue's bias).
    (C5) equal element types, bf16 or f16. f32 is refused: a product and a sum apart are as exact there.
    (C6) with a bias ranks are 2, and it is a vector of N of the same type.
  }];
  let arguments = (ins Graph_FloatTensor:$a, Graph_FloatTensor:$b, Graph_FloatTensor:$c, Optional<Graph_FloatTensor>:$bias, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$a `,` $b `,` $c (`bias` $bias^ `:` type($bias))? attr-dict `:` type($a) `,` type($b) `,` type($c)";
  let hasVerifier = 1;
}

def Graph_MatmulBiasOp : Graph_Op<"matmul_bias", [Costed, Mixed, WithWorkspace]> {
  let summary = "op(a) * op(b) + bias, the same for each row, rounded once.";
  let description = [{
        %y = graph.matmul_bias %x, %w, %bias {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<6xbf16> -> tensor<8x6xbf16>

    y[m, n] = sum_k op(a)[m, k] * op(b)[k, n] + bias[n]: the f32 sum over k, plus the bias, rounded once to y's type. A linear layer with its bias; a GPU's
    library adds it in its epilogue, a host where a tile of sums is stored.
    (C1) a, b and y have rank 2. (C2) equal contraction sizes. (C3) y is (M, N). (C4) the bias is a vector of N.
    (C5) equal element types, bf16 or f16. f32 is refused: a product and a sum apart are as exact there.
  }];
  let arguments = (ins Graph_FloatTensor:$a, Graph_FloatTensor:$b, Graph_FloatTensor:$bias, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$a `,` $b `,` $bias attr-dict `:` type($a) `,` type($b) `,` type($bias) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_MatmulGeluOp : Graph_Op<"matmul_gelu", [Costed, Mixed, WithWorkspace]> {
  let summary = "GELU of op(a) * op(b) + bias, rounded once; and that sum, rounded, where it is wanted.";
  let description = [{
        %y, %sums = graph.matmul_gelu %x, %w, %bias {transpose_b} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>, tensor<8x16xbf16>

    With s[m, n] = sum_k op(a)[m, k] * op(b)[k, n] + bias[n] in f32: y = 0.5 s (1 + tanh(0.79788456 (s + 0.044715 s^3))), the tanh form of GELU with its numbers in
    f32, rounded once to y's type, and `sums`, which the gradient is made of, is s rounded to that type. A GPU's library computes both in its epilogue
    (CUBLASLT_EPILOGUE_GELU_AUX_BIAS; without sums GELU_BIAS), a host where a tile of sums is stored.
    (C1)-(C5) as matmul_bias. (C6) N is a multiple of 8: the library wants that of sums. (C7) sums, where present, has y's type.
  }];
  let arguments = (ins Graph_FloatTensor:$a, Graph_FloatTensor:$b, Graph_FloatTensor:$bias, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Graph_FloatTensor:$y, Optional<Graph_FloatTensor>:$sums);
  let assemblyFormat = "$a `,` $b `,` $bias attr-dict `:` type($a) `,` type($b) `,` type($bias) `->` type($y) (`,` type($sums)^)?";
  let hasVerifier = 1;
}
#endif
