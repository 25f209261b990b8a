// Row gather and its transpose.
#ifndef ZTC_GRAPH_EMBEDDING
#define ZTC_GRAPH_EMBEDDING
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_EmbeddingOp : Graph_Op<"embedding", [Differentiable, Costed, LibraryCall]> {
  let summary = "y[..., :] = table[indices[...], :].";
  let description = [{ The table may be computed, as in a lookup by routing or position. Of tokens an index outside the table is refused
    by the data reader before it gets here; of computed indices it ends the run. Lookups of row `padding` give the table no gradient
    (PyTorch's Embedding(padding_idx)).
    (C1) table is (V, D). (C2) the result shape is the indices' plus D. (C3) table and result have one element type. (C4) 0 <= padding < V. }];
  let arguments = (ins Graph_Tensor:$table, Graph_IntegerTensor:$indices, OptionalAttr<I64Attr>:$padding);
  let builders = [OpBuilder<(ins "mlir::Type":$y, "mlir::Value":$table, "mlir::Value":$indices), [{
    build($_builder, $_state, y, table, indices, /*padding=*/mlir::IntegerAttr());
  }]>];
  let results = (outs Graph_Tensor:$y);
  let assemblyFormat = "$table `,` $indices attr-dict `:` type($table) `,` type($indices) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_EmbeddingGradOp : Graph_Op<"embedding_grad", [Differentiable, Costed, Mixed, Accumulating]> {
  let summary = "dtable[v, :] = sum of dy[p, :] over the positions p with indices[p] = v, in order of p.";
  let description = [{ Also a sum scattered into rows of zeros by computed indices; its derivative is the lookup. The sums have dtable's type, which may be wider than dy's.
    (C1) dtable is (V, D). (C2) dy's shape is the indices' plus D. }];
  let arguments = (ins Graph_IntegerTensor:$indices, Graph_FloatTensor:$dy);
  let results = (outs Graph_FloatTensor:$dtable);
  let assemblyFormat = "$indices `,` $dy attr-dict `:` type($indices) `,` type($dy) `->` type($dtable)";
  let hasVerifier = 1;
}
#endif
