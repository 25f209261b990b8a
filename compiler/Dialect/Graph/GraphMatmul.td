// Matrix products.
#ifndef ZTC_GRAPH_MATMUL
#define ZTC_GRAPH_MATMUL
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_MatmulOp : Graph_Op<"matmul", [Differentiable, Costed, Mixed, AccumulatingWithWorkspace]> {
  let summary = "op(a) * op(b) over the last two dimensions.";
  let description = [{
    y[..., m, n] = sum_k op(a)[..., m, k] * op(b)[..., k, n]; op transposes the last two dimensions where the flag is set.
    A linear layer on (T, K) with a checkpoint weight (N, K) is `matmul %x, %w {transpose_b}`.
    (C1) equal ranks of at least 2. (C2) equal leading dimensions. (C3) equal contraction sizes. (C4) the result is (..., M, N).
    (C5) equal element types of a and b; the result may have a wider one (the gradient of a weight).
  }];
  let arguments = (ins Graph_FloatTensor:$a, Graph_FloatTensor:$b, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a) `,` type($b) `->` type($y)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$a, "::mlir::Value":$b, "bool":$transposeA, "bool":$transposeB), [{
    build($_builder, $_state, matmulType(a.getType(), b.getType(), transposeA, transposeB), a, b, transposeA, transposeB);
  }]>];
}
#endif
