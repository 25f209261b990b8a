// Rotary embedding and attention.
#ifndef ZTC_GRAPH_ATTENTION
#define ZTC_GRAPH_ATTENTION
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_RopeOp : Graph_Op<"rope", [AllTypesMatch<["x", "y"]>, AllTypesMatch<["cos", "sin"]>, Differentiable, Decomposable, Costed, Mixed]> {
  let summary = "Rotary position embedding, half-split convention (Su et al. 2021; Hugging Face rotate_half).";
  let description = [{
    x is (B, S, H, D), the tables (S, D/2). With x = [x1 | x2] in halves of D:
    y = [x1*cos - x2*sin | x2*cos + x1*sin]; with `inverse` the sine changes sign, which is the transpose.
    A narrow x is computed in the tables' type and rounded once.
    (C1) x is 4-D with an even D. (C2) cos and sin are (S, D/2). (C3) x and y have one type.
  }];
  let arguments = (ins Graph_FloatTensor:$x, Graph_FloatTensor:$cos, Graph_FloatTensor:$sin, UnitAttr:$inverse);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$x `,` $cos `,` $sin attr-dict `:` type($x) `,` type($cos)";
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$cos, "::mlir::Value":$sin, "bool":$inverse), [{
    build($_builder, $_state, x.getType(), x, cos, sin, inverse);
  }]>];
  let hasVerifier = 1;
}

def Graph_AttentionOp : Graph_Op<"attention", [AllTypesMatch<["q", "out"]>, AllTypesMatch<["k", "v"]>, DifferentiableWithResiduals, Decomposable, Costed, Mixed, WithWorkspace]> {
  let summary = "Scaled dot-product attention with grouped heads, no (S, S) tensor.";
  let description = [{
    q is (B, S, Hq, D), k and v (B, S, Hkv, D); head h of q reads head h / (Hq/Hkv) of k and v.
    out = softmax(cap(scale * q k^T) + mask) v, out (B, S, Hq, D); `lse`, (B, Hq, S) in f32, is the row's log-sum-exp of the capped scores.
    With a `softcap` c other than 0, cap(x) = c * tanh(x / c) (Gemma 2), else cap(x) = x.
    With `causal`, position i sees j <= i; with a `window` w > 0 also j > i - w.
    Of rows that hold several documents `document_starts` (B, S) says at which position of its row each position's document starts: i sees
    j >= document_starts[b, i] only, so that attention stays within a document.
    Of narrow tensors scores and softmax are f32, the probabilities are rounded before they multiply v, and out is rounded once.
    (C1) q, k, v are 4-D with equal B, S, D. (C2) Hkv divides Hq. (C3) v has k's type, out q's. (C4) lse, where present, is (B, Hq, S).
    (C5) window >= 0, and > 0 only with causal. (C6) document_starts, where present, is (B, S), and the op is causal.
    (C7) softcap is finite and >= 0.
  }];
  let arguments = (ins Graph_FloatTensor:$q, Graph_FloatTensor:$k, Graph_FloatTensor:$v, Optional<Graph_PlacesTensor>:$document_starts,
                       F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<F64Attr, "0.0">:$softcap);
  let results = (outs Graph_FloatTensor:$out, Optional<Graph_FloatTensor>:$lse);
  let assemblyFormat = [{$q `,` $k `,` $v `,` $scale (`within` $document_starts^ `:` type($document_starts))? attr-dict `:` type($q) `,` type($k)
                         (`->` type($lse)^)?}];
  let hasVerifier = 1;
}

def Graph_AttentionGradOp : Graph_Op<"attention_grad", [AllTypesMatch<["q", "out", "dout", "dq"]>, AllTypesMatch<["k", "v", "dk", "dv"]>, Decomposable, Costed, Mixed, WithWorkspace]> {
  let summary = "Cotangents of attention from its operands, its result and its row statistics (Dao 2023, algorithm 2).";
  let description = [{
    p = exp(cap(scale * q k^T) - lse) under the mask; dv = p^T dout; dp = dout v^T; ds = p * (dp - rowsum(dout * out)) * scale,
    with a `softcap` c times the cap's slope, 1 - tanh(scale * q k^T / c)^2;
    dq = ds k; dk = ds^T q; dk and dv are summed over the query heads of a group.
    Of narrow tensors p and ds are rounded before they enter a product; dq, dk and dv are rounded once, dk and dv after that sum.
    (C1) the operands and attributes are those of attention with lse and, of packed rows, document_starts. (C2) dq has q's type, dk and dv have k's.
  }];
  let arguments = (ins Graph_FloatTensor:$q, Graph_FloatTensor:$k, Graph_FloatTensor:$v, Graph_FloatTensor:$out, Graph_FloatTensor:$lse,
                       Graph_FloatTensor:$dout, Optional<Graph_PlacesTensor>:$document_starts, F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap);
  let results = (outs Graph_FloatTensor:$dq, Graph_FloatTensor:$dk, Graph_FloatTensor:$dv);
  let assemblyFormat = [{$q `,` $k `,` $v `,` $out `,` $lse `,` $dout `,` $scale (`within` $document_starts^ `:` type($document_starts))? attr-dict `:`
                         type($q) `,` type($k) `,` type($lse)}];
  let builders = [OpBuilder<(ins "::mlir::Value":$q, "::mlir::Value":$k, "::mlir::Value":$v, "::mlir::Value":$out, "::mlir::Value":$lse,
                                 "::mlir::Value":$dout, "::mlir::Value":$documentStarts, "double":$scale, "bool":$causal, "int64_t":$window, "double":$softcap), [{
    build($_builder, $_state, ::mlir::TypeRange{q.getType(), k.getType(), k.getType()}, q, k, v, out, lse, dout, documentStarts, ::llvm::APFloat(scale), causal, window,
          ::llvm::APFloat(softcap));
  }]>];
  let hasVerifier = 1;
}
#endif
