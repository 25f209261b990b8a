// Gradient accumulation and the optimizer.
#ifndef ZTC_GRAPH_OPTIMIZER
#define ZTC_GRAPH_OPTIMIZER
include "compiler/Dialect/Graph/GraphBase.td"

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

def Graph_AdamwOp : Graph_Op<"adamw", [Decomposable, Costed, OptimizerOpInterface, AllTypesMatch<["parameter", "new_parameter"]>,
    AllTypesMatch<["exp_avg", "exp_avg_sq", "new_exp_avg", "new_exp_avg_sq"]>]> {
  let summary = "One AdamW update (Loshchilov and Hutter 2019; operations in PyTorch's order) of a flat bucket.";
  let description = [{
    g = gradient * gradient_scale; p1 = p * (1 - lr * decay), decay only where the global element index < `decayed`;
    m' = m + (g - m) * (1 - beta1); v' = v * beta2 + (1 - beta2) * g * g;
    p' = p1 - (lr * correction1) * m' / (sqrt(v') * correction2 + epsilon), with
    correction1 = 1/(1 - beta1^t) and correction2 = 1/sqrt(1 - beta2^t). Where `proceed` is false nothing changes.
    `hyper` is the f32 vector of runtime/Format/StepParameters.h: its fields hold lr, betas, corrections and so on.
    Everything is computed in f32 (f64 for f64), from an f32 master: a bf16 parameter has its i16 remainder in `master` (join_master,
    split_master), an f16 parameter the f32 master itself, of which it is the rounded form. A gradient of any float type is widened. States
    in bf16 are rounded by stochastic_round with the streams 0 (exp_avg) and 1 (exp_avg_sq).
    (C1) parameter, gradient, states and master are 1-D of one length and layout. (C2) hyper is 1-D f32, gradient_scale a scalar, proceed a
    scalar i1. (C3) a master stands beside a bf16 (i16) or an f16 (f32) parameter, and only there. (C4) states are f32 (f64), or bf16.
  }];
  let arguments = (ins Graph_AnyTensor:$parameter, Graph_AnyTensor:$gradient, Graph_AnyTensor:$exp_avg, Graph_AnyTensor:$exp_avg_sq,
                       Graph_FloatTensor:$hyper, Graph_FloatTensor:$gradient_scale, Graph_BoolTensor:$proceed, I64Attr:$decayed,
                       Optional<Graph_AnyTensor>:$master);
  let results = (outs Graph_AnyTensor:$new_parameter, Graph_AnyTensor:$new_exp_avg, Graph_AnyTensor:$new_exp_avg_sq,
                      Optional<Graph_AnyTensor>:$new_master);
  let assemblyFormat = [{
    $parameter `,` $gradient `,` $exp_avg `,` $exp_avg_sq `,` $hyper `,` $gradient_scale `,` $proceed `,` $decayed (`master` $master^)? attr-dict `:`
    type($parameter) `,` type($gradient) `,` type($hyper) `,` type($gradient_scale) `,` type($proceed)
    custom<StateTypes>(ref(type($parameter)), type($exp_avg), type($master), type($new_master))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$parameter, "::mlir::Value":$gradient, "::mlir::Value":$expAvg, "::mlir::Value":$expAvgSq,
                                 "::mlir::Value":$hyper, "::mlir::Value":$gradientScale, "::mlir::Value":$proceed, "int64_t":$decayed,
                                 "::mlir::Value":$master), [{
    build($_builder, $_state, parameter.getType(), expAvg.getType(), expAvgSq.getType(), master ? master.getType() : ::mlir::Type(), parameter,
          gradient, expAvg, expAvgSq, hyper, gradientScale, proceed, $_builder.getI64IntegerAttr(decayed), master);
  }]>];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::Value> keptValues();
    ::llvm::SmallVector<::mlir::Value> newKeptValues();
  }];
  let hasVerifier = 1;
}

def Graph_OptimizerStepOp : Graph_Op<"optimizer_step", [Decomposable, Costed, OptimizerOpInterface, AllTypesMatch<["parameter", "new_parameter"]>]> {
  let summary = "One update of a flat bucket by an optimizer that is registered by name (Optimizers.h).";
  let description = [{
    As graph.adamw, with another rule: the gradient times `gradient_scale`, decoupled weight decay where the global element index is below
    `decayed`, masters, states in bf16 and `proceed` are the same for every optimizer; what becomes of parameter and states is the
    registered rule's formula, which `decompose` writes out. `kept` are the states in the rule's order, then the master.
    (C1) parameter, gradient and what is kept are 1-D of one length and layout. (C2) hyper is 1-D f32, gradient_scale a scalar, proceed a
    scalar i1. (C3) behind the states a master stands beside a bf16 (i16) or an f16 (f32) parameter, and only there. (C4) states are f32
    (f64), or bf16. (C5) `optimizer` is registered, and there are as many states as it has. (C6) what is kept keeps its types.
  }];
  let arguments = (ins StrAttr:$optimizer, Graph_AnyTensor:$parameter, Graph_AnyTensor:$gradient, Variadic<Graph_AnyTensor>:$kept,
                       Graph_FloatTensor:$hyper, Graph_FloatTensor:$gradient_scale, Graph_BoolTensor:$proceed, I64Attr:$decayed);
  let results = (outs Graph_AnyTensor:$new_parameter, Variadic<Graph_AnyTensor>:$new_kept);
  let assemblyFormat = [{
    $optimizer $parameter `,` $gradient `keeps` `(` $kept `)` `by` `(` $hyper `,` $gradient_scale `,` $proceed `)` `decayed` $decayed attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::Value> keptValues() { return ::llvm::SmallVector<::mlir::Value>(getKept()); }
    ::llvm::SmallVector<::mlir::Value> newKeptValues() { return ::llvm::SmallVector<::mlir::Value>(getNewKept()); }
  }];
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
