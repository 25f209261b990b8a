// Constants, index values and ops that move or reduce data.
#ifndef ZTC_GRAPH_SHAPE
#define ZTC_GRAPH_SHAPE
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_ConstantOp : Graph_Op<"constant", [ConstantLike, AllTypesMatch<["value", "y"]>]> {
  let summary = "A dense or splat constant; tables (cosines of the rotary embedding) are dense resources.";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Graph_Tensor:$y);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

def Graph_IotaOp : Graph_Op<"iota"> {
  let summary = "The index along one dimension.";
  let description = [{ y[i0, ..., in] = i_dimension. (C1) dimension < rank. (C2) element type i32 or i64.
    Over a flat shard the index is global: it starts where the shard starts. }];
  let arguments = (ins I64Attr:$dimension);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$dimension attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Graph_ReshapeOp : Graph_Op<"reshape", [Differentiable, WholeAlias]> {
  let summary = "Another shape for the same row-major elements: an alias, never a copy.";
  let description = [{ (C1) equal element counts. (C2) equal element types. }];
  let arguments = (ins Graph_MovedTensor:$x);
  let results = (outs Graph_MovedTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_TransposeOp : Graph_Op<"transpose", [Differentiable]> {
  let summary = "Permutes dimensions: y.shape[i] = x.shape[permutation[i]].";
  let description = [{ (C1) permutation is one of 0..rank-1. (C2) the result shape is the permuted one. }];
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs Graph_Tensor:$y);
  let assemblyFormat = "$x `,` $permutation attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Graph_BroadcastOp : Graph_Op<"broadcast", [Differentiable]> {
  let summary = "Repeats dimensions of size 1, and adds leading ones (NumPy alignment: from the right).";
  let description = [{ (C1) aligned from the right, each operand dimension equals the result's or is 1. (C2) equal element types. }];
  let arguments = (ins Graph_AnyTensor:$x);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_SliceOp : Graph_Op<"slice", [Differentiable, Aliasing]> {
  let summary = "A box of the operand: offsets, and the sizes of the result type; stride 1.";
  let description = [{ (C1) one offset per dimension. (C2) offset + size <= the operand's dimension. }];
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$offsets);
  let results = (outs Graph_Tensor:$y);
  let assemblyFormat = "$x `,` $offsets attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_PadOp : Graph_Op<"pad", [Differentiable]> {
  let summary = "Zeros around the operand: `low[i]` before it, as many after it as the result type asks for.";
  let description = [{ (C1) one low per dimension. (C2) low + the operand's dimension <= the result's. }];
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$low);
  let results = (outs Graph_Tensor:$y);
  let assemblyFormat = "$x `,` $low attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Graph_ConcatOp : Graph_Op<"concat", [Differentiable]> {
  let summary = "Joins tensors along one axis.";
  let description = [{ (C1) axis < rank. (C2) equal shapes except along the axis. (C3) the sizes along the axis add up to the result's. }];
  let arguments = (ins Variadic<Graph_MovedTensor>:$inputs, I64Attr:$axis);
  let results = (outs Graph_MovedTensor:$y);
  let assemblyFormat = "$inputs `axis` $axis attr-dict `:` type($inputs) `->` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

class Graph_ReduceOp<string mnemonic, list<Trait> traits = []> : Graph_Op<mnemonic, !listconcat([Costed], traits)> {
  let description = [{ Reduced dimensions stay, with size 1. Sums of narrow floats run in f32 and are rounded once at the end.
    (C1) axes are sorted, distinct and < rank. (C2) the result shape is the operand's with 1 at each axis.
    (C3) equal element types; a sum may have a wider one. }];
  let arguments = (ins Graph_AnyTensor:$x, DenseI64ArrayAttr:$axes);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$x `,` $axes attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::llvm::ArrayRef<int64_t>":$axes), [{
    build($_builder, $_state, reducedType(x.getType(), axes), x, axes);
  }]>];
}
def Graph_ReduceSumOp : Graph_ReduceOp<"reduce_sum", [Differentiable, Mixed]> { let summary = "Sum over axes."; }
def Graph_ReduceMaxOp : Graph_ReduceOp<"reduce_max", [Differentiable]> { let summary = "Maximum over axes; the cotangent is shared equally by the elements that have the maximum."; }

def Graph_BarrierOp : Graph_Op<"recompute_barrier", [AllTypesMatch<["x", "y"]>, Differentiable, WholeAlias]> {
  let summary = "The operand, not before `after` exists: an alias that keeps a recomputed value apart from the saved one.";
  let description = [{ CSE cannot merge operations after the barrier with operations before it. (C1) operand and result have one type. }];
  let arguments = (ins Graph_StoredTensor:$x, Graph_AnyTensor:$after);
  let results = (outs Graph_StoredTensor:$y);
  let assemblyFormat = "$x `after` $after attr-dict `:` type($x) `,` type($after)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$after), [{ build($_builder, $_state, x.getType(), x, after); }]>];
}
#endif
