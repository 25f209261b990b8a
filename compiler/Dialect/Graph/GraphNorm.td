// Normalisation, softmax and gated activations: macro ops that are decomposed before code generation.
#ifndef ZTC_GRAPH_NORM
#define ZTC_GRAPH_NORM
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_RmsNormOp : Graph_Op<"rms_norm", [AllTypesMatch<["x", "y"]>, Differentiable, Decomposable, Costed]> {
  let summary = "Root-mean-square normalisation of the last dimension, times a weight.";
  let description = [{
    y = x / sqrt(mean(x^2) + epsilon) * weight (Zhang and Sennrich 2019, eq. 4).
    (C1) weight is 1-D of the last dimension. (C2) x and y have one type. (C3) epsilon > 0.
  }];
  let arguments = (ins Graph_FloatTensor:$x, Graph_FloatTensor:$weight, F64Attr:$epsilon);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$x `,` $weight `,` $epsilon attr-dict `:` type($x) `,` type($weight)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$weight, "double":$epsilon), [{
    build($_builder, $_state, x.getType(), x, weight, $_builder.getF64FloatAttr(epsilon));
  }]>];
  let hasVerifier = 1;
}

def Graph_RmsNormGradOp : Graph_Op<"rms_norm_grad", [AllTypesMatch<["x", "dy", "dx"]>, Decomposable, Costed, Mixed]> {
  let summary = "Cotangents of rms_norm: of x (row-wise), and of the weight (summed over rows).";
  let description = [{
    With r = 1/sqrt(mean(x^2)+epsilon), recomputed from the row that is read anyway, and h = dy * weight:
    dx = r * h - x * r^3 * mean(x * h); d_weight = sum over rows of dy * x * r.
    (C1) x, dy and dx have one type. (C2) weight and d_weight are 1-D of the last dimension. (C3) d_weight has weight's element type or a wider one.
  }];
  let arguments = (ins Graph_FloatTensor:$x, Graph_FloatTensor:$weight, Graph_FloatTensor:$dy, F64Attr:$epsilon);
  let results = (outs Graph_FloatTensor:$dx, Graph_FloatTensor:$dweight);
  let assemblyFormat = "$x `,` $weight `,` $dy `,` $epsilon attr-dict `:` type($x) `,` type($weight) custom<WiderType>(ref(type($weight)), type($dweight))";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$weight, "::mlir::Value":$dy, "double":$epsilon), [{
    build($_builder, $_state, ::mlir::TypeRange{x.getType(), weight.getType()}, x, weight, dy, $_builder.getF64FloatAttr(epsilon));
  }]>];
  let hasVerifier = 1;
}

def Graph_SoftmaxOp : Graph_Op<"softmax", [SameOperandsAndResultType, Differentiable, Decomposable, Costed]> {
  let summary = "exp(x - max) / sum over the last dimension.";
  let arguments = (ins Graph_FloatTensor:$x);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($y)";
}

def Graph_SwigluOp : Graph_Op<"swiglu", [SameOperandsAndResultType, Differentiable, Decomposable, Costed]> {
  let summary = "gate * sigmoid(gate) * up (Shazeer 2020).";
  let arguments = (ins Graph_FloatTensor:$gate, Graph_FloatTensor:$up);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($y)";
}

def Graph_SwigluGradOp : Graph_Op<"swiglu_grad", [SameOperandsAndResultType, Decomposable, Costed]> {
  let summary = "Cotangents of swiglu: s = sigmoid(gate); d_gate = dy * up * s * (1 + gate * (1 - s)); d_up = dy * gate * s.";
  let arguments = (ins Graph_FloatTensor:$gate, Graph_FloatTensor:$up, Graph_FloatTensor:$dy);
  let results = (outs Graph_FloatTensor:$dgate, Graph_FloatTensor:$dup);
  let assemblyFormat = "$gate `,` $up `,` $dy attr-dict `:` type($gate)";
}
#endif
