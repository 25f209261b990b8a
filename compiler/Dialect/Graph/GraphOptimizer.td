// Gradient accumulation and the optimizer.
#ifndef ZTC_GRAPH_OPTIMIZER
#define ZTC_GRAPH_OPTIMIZER
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_FlatFloatTensor : RankedTensorOf<[F32, F64]>;

def Graph_AccumulateOp : Graph_Op<"accumulate", [SameOperandsAndResultType]> {
  let summary = "accumulator + x, meant to happen in the accumulator's storage.";
  let description = [{
    The phase `assign` turns it into beta=1 of a matrix product, an in-kernel add, or a kernel of its own.
    With `first_writes` the accumulator holds nothing in the first micro-step of a step: the result is x there.
  }];
  let arguments = (ins Graph_AnyTensor:$accumulator, Graph_AnyTensor:$x, UnitAttr:$first_writes);
  let results = (outs Graph_AnyTensor:$y);
  let assemblyFormat = "$accumulator `,` $x attr-dict `:` type($y)";
}

def Graph_OptimizerStepOp : Graph_Op<"optimizer_step", [Decomposable, Costed, OptimizerOpInterface, AttrSizedOperandSegments,
    AllTypesMatch<["parameter", "new_parameter"]>]> {
  let summary = "One update of a flat bucket by an optimizer that is registered by name (Optimizers.h).";
  let description = [{
    What becomes of parameter and states is the formula of the rule `optimizer`, which `decompose` writes out. Around it all optimizers
    have in common: the gradient is widened and multiplied by `gradient_scale`; decoupled weight decay, p * (1 - lr * decay), is for elements
    whose global index is below `decayed` (for all of them where it is the largest i64); where `proceed` is false nothing changes. `hyper` is the f32 vector of
    runtime/Format/StepParameters.h: its fields hold lr, betas, corrections and so on.
    Everything is computed in f32 (f64 for f64), from an f32 master: a bf16 parameter has its i16 remainder in `kept` (join_master,
    split_master), an f16 parameter the f32 master itself, of which it is the rounded form. A bf16 parameter without a master is rounded by
    stochastic_round, and so are states in bf16. What that draws depends on the seed, the step, what is rounded (state number n is stream n),
    and the element's number: where tensor t of the bucket begins at starts[t], element i of it has the number numbers[t] + i, i counted in
    the whole bucket; without `numbers` that is i. `kept` are the states in the rule's order, then the master.
    Parameters with learning rates of their own: elements from graph.rate_ends[i - 1] to graph.rate_ends[i] of the whole bucket take the
    run's rate times graph.rate_factors[i]. Where the optimizer orthogonalizes (Muon), `gradient` is what graph.orthogonalize made, no state is
    kept here, and the changes of elements are multiplied by graph.change_factors, in the same way.
    (C1) parameter, gradient and what is kept are 1-D of one length and layout. (C2) hyper is 1-D f32, gradient_scale a scalar, proceed a
    scalar i1. (C3) after the states a master may stand beside a bf16 parameter (i16), must beside an f16 one (f32), and stands nowhere
    else. (C4) states are f32 (f64), bf16, or block8. (C5) `optimizer` is registered, and there are as many states as it has. (C6) what is kept
    keeps its types. (C7) numbers are 1-D i64, as many as starts, which ascend from 0. (C8) there are as many graph.rate_ends as
    graph.rate_factors, the ends ascend, and each factor is finite and positive.
  }];
  let arguments = (ins StrAttr:$optimizer, Graph_AnyTensor:$parameter, Graph_AnyTensor:$gradient, Variadic<Graph_KeptTensor>:$kept,
                       Graph_FloatTensor:$hyper, Graph_FloatTensor:$gradient_scale, Graph_BoolTensor:$proceed, I64Attr:$decayed,
                       Optional<Graph_IntegerTensor>:$numbers, OptionalAttr<DenseI64ArrayAttr>:$starts);
  let results = (outs Graph_AnyTensor:$new_parameter, Variadic<Graph_KeptTensor>:$new_kept);
  let assemblyFormat = [{
    $optimizer $parameter `,` $gradient `keeps` `(` $kept `)` `by` `(` $hyper `,` $gradient_scale `,` $proceed `)` `decayed` $decayed
    (`numbered` $numbers^ `from` $starts)? attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::Value> keptValues() { return ::llvm::SmallVector<::mlir::Value>(getKept()); }
    ::llvm::SmallVector<::mlir::Value> newKeptValues() { return ::llvm::SmallVector<::mlir::Value>(getNewKept()); }
  }];
  let hasVerifier = 1;
}

def Graph_MomentumDirectionOp : Graph_Op<"momentum_direction", [Decomposable, Costed,
    AllTypesMatch<["momentum", "new_momentum"]>]> {
  let summary = "The first part of an update by Muon: the momentum of a flat bucket, and the direction that it gives.";
  let description = [{
    torch.optim.Muon with Nesterov's momentum: m' = m + (1 - momentum) (g - m), direction = lerp(g, m', momentum), where g is the gradient
    times `gradient_scale`. Where `proceed` is false the momentum does not change, and nothing reads the direction. What is stored of the momentum,
    and `numbers`, are as in graph.optimizer_step, state number 0.
    (C1) gradient, momentum and direction are 1-D of one length and layout. (C2) hyper is 1-D f32, gradient_scale a scalar, proceed a scalar
    i1. (C3) the momentum is f32, bf16, or block8. (C4) numbers are 1-D i64, as many as starts.
  }];
  let arguments = (ins Graph_AnyTensor:$gradient, Graph_KeptTensor:$momentum, Graph_FloatTensor:$hyper, Graph_FloatTensor:$gradient_scale,
                       Graph_BoolTensor:$proceed, Optional<Graph_IntegerTensor>:$numbers, OptionalAttr<DenseI64ArrayAttr>:$starts);
  let results = (outs RankedTensorOf<[BF16]>:$direction, Graph_KeptTensor:$new_momentum);
  let assemblyFormat = [{
    $gradient `keeps` `(` $momentum `)` `by` `(` $hyper `,` $gradient_scale `,` $proceed `)` (`numbered` $numbers^ `from` $starts)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Graph_OrthogonalizeOp : Graph_Op<"orthogonalize", [Costed, SameOperandsAndResultType]> {
  let summary = "Each matrix made nearly orthogonal, by five steps of a Newton-Schulz iteration.";
  let description = [{
    The numbers of torch.optim.Muon (Jordan et al. 2024), all products of bf16 factors, summed in f32 and rounded once:
    X = x / max(|x|, 1e-7), |x| the Frobenius norm, rounded to bf16; then five times A = X X^T, B = b A + c A A, X = a X + B X with a = 3.4445,
    b = -4.7750, c = 2.0315, and X^T in place of X where a matrix has more rows than columns. `ztc-expand-orthogonalizations` writes it out.
    (C1) x has rank 2, or rank 3, a stack of matrices.
  }];
  let arguments = (ins StaticShapeTensorOf<[BF16]>:$x);
  let results = (outs StaticShapeTensorOf<[BF16]>:$y);
  let assemblyFormat = "$x attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Graph_DecodeBlocksOp : Graph_Op<"decode_blocks", [Elementwise, SameOperandsAndResultShape]> {
  let summary = "The numbers that codes of 8 bits stand for.";
  let description = [{
    y[i] = map[code of element i] * magnitude of its block, one product in f32 (runtime/Format/BlockState.h).
    (C1) x is block8, y f32 (f64), 1-D and of one length and layout.
  }];
  let arguments = (ins Graph_BlockTensor:$x);
  let results = (outs Graph_FlatFloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_EncodeBlocksOp : Graph_Op<"encode_blocks", [SameOperandsAndResultShape, AllTypesMatch<["old", "y"]>]> {
  let summary = "Each 256 elements as codes of 8 bits with their largest magnitude; `old` where `proceed` is false.";
  let description = [{
    The magnitude of a block is max |x[i]|; the code of an element is that of the entry of the map which is nearest to x[i] / magnitude,
    as bitsandbytes' CPU code rounds (runtime/Format/BlockState.h). What lies past the tensor's end counts as zero.
    (C1) x is f32 (f64), old and y block8, 1-D and of one length and layout. (C2) proceed is i1 of x's shape: of a block, its first element's
    counts.
  }];
  let arguments = (ins Graph_FlatFloatTensor:$x, Graph_BlockTensor:$old, Graph_AnyTensor:$proceed);
  let results = (outs Graph_BlockTensor:$y);
  let assemblyFormat = "$x `over` $old `if` $proceed attr-dict `:` type($x) `,` type($proceed) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_SumSquaresOp : Graph_Op<"sum_squares", [Costed]> {
  let summary = "Sum of squares of a flat tensor as a scalar f32, in fixed blocks of 4096 elements.";
  let description = [{ (C1) the operand is 1-D. (C2) the result is a rank-0 tensor. }];
  let arguments = (ins Graph_AnyTensor:$x);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}
#endif
