// Products with a sum. The op has a header of its own (MatmulAdd.h): few files know of it.
#ifndef ZTC_GRAPH_MATMUL_ADD
#define ZTC_GRAPH_MATMUL_ADD
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_MatmulAddOp : Graph_Op<"matmul_add", [Costed, Mixed, WithWorkspace, AllTypesMatch<["c", "y"]>]> {
  let summary = "op(a) * op(b) + c over the last two dimensions, rounded once.";
  let description = [{
        %y = graph.matmul_add %x, %w, %residual {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16>

    y[..., m, n] = sum_k op(a)[..., m, k] * op(b)[..., k, n] + c[..., m, n]: the f32 sum over k, plus c, rounded once to y's type, which is c's.
    (C1) equal ranks of at least 2. (C2) equal leading dimensions. (C3) equal contraction sizes. (C4) c, and so y, is (..., M, N).
    (C5) equal element types, bf16 or f16. f32 is refused: a product and a sum apart are as exact there.
  }];
  let arguments = (ins Graph_FloatTensor:$a, Graph_FloatTensor:$b, Graph_FloatTensor:$c, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `,` type($c)";
  let hasVerifier = 1;
}
#endif
