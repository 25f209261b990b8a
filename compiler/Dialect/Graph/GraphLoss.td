// The loss: a sum over counted tokens, each of them with its weight.
#ifndef ZTC_GRAPH_LOSS
#define ZTC_GRAPH_LOSS
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_CrossEntropyOp : Graph_Op<"cross_entropy", [Differentiable, Decomposable, Costed, Mixed]> {
  let summary = "Sum over rows of log-sum-exp(logits) - logits[target]; rows with a negative target do not count.";
  let description = [{
    logits is (T, V), targets (T) of i32 (already shifted; -100 and any other negative number: ignored), the loss a scalar (sum, not mean),
    or (G): G sums, of T / G rows each that follow one another. With `weights` (T) the sum is that of weights[t] * loss[t], PyTorch's
    `(cross_entropy(logits, targets, reduction="none") * weights).sum()`; rows that are ignored count nothing, whatever their weight.
    (C1) logits 2-D, targets 1-D of its rows. (C2) the loss is a tensor of rank 0, or of rank 1 and a size that divides T, of the logits'
    element type or a wider one. (C3) weights are 1-D of T rows, f32 (f64).
  }];
  let arguments = (ins Graph_FloatTensor:$logits, Graph_IntegerTensor:$targets, Optional<Graph_FloatTensor>:$weights);
  let results = (outs Graph_FloatTensor:$loss);
  let assemblyFormat = [{
    $logits `,` $targets (`weights` $weights^ `:` type($weights))? attr-dict `:` type($logits) `,` type($targets) `->` type($loss)
  }];
  let hasVerifier = 1;
}

def Graph_CrossEntropyGradOp : Graph_Op<"cross_entropy_grad", [AllTypesMatch<["logits", "dlogits"]>, Decomposable, Costed, Mixed]> {
  let summary = "dlogits = (softmax(logits) - onehot(target)) * dloss, times the row's weight where there are weights; zero in rows that are ignored.";
  let description = [{ (C1) the operands are those of cross_entropy; dloss is a scalar. }];
  let arguments = (ins Graph_FloatTensor:$logits, Graph_IntegerTensor:$targets, Graph_FloatTensor:$dloss, Optional<Graph_FloatTensor>:$weights);
  let results = (outs Graph_FloatTensor:$dlogits);
  let assemblyFormat = [{
    $logits `,` $targets `,` $dloss (`weights` $weights^ `:` type($weights))? attr-dict `:` type($logits) `,` type($targets) `,` type($dloss)
  }];
  let hasVerifier = 1;
}

def Graph_LinearCrossEntropyOp : Graph_Op<"linear_cross_entropy", [AttrSizedOperandSegments, AttrSizedResultSegments, Decomposable, Costed, Mixed, AccumulatingWithWorkspace]> {
  let summary = "cross_entropy(cap(logit_scale * hidden * head^T), targets) chunk by chunk, without the logits tensor; the root of the backward part.";
  let description = [{
    hidden is (T, D), head (V, D), targets (T) i32, loss a scalar sum. With a `softcap` c other than 0, cap(x) = c * tanh(x / c), else cap(x) = x.
    With `scale` (a scalar: 1/N, times the loss scale) the op is the training form: it also returns d_hidden (T, D) and d_head (V, D),
    the cotangents of scale * loss; d_head only where the head is trained. Without it, it is the loss-only form of evaluation, whose loss
    may be (G): G sums, of T / G rows each that follow one another.
    `weights` (T) are those of cross_entropy: row t's loss and cotangents are multiplied by weights[t].
    Of a narrow hidden and head the logits and their cotangents are rounded when they are stored, d_hidden once, after its sum.
    (C1) hidden and head are 2-D with equal D. (C2) targets is 1-D of T rows. (C3) d_hidden is present if and only if scale is, d_head
    never without it; they have the types of hidden and head, d_head may have a wider element type. (C4) loss is a rank-0 f32 (f64) tensor,
    in the loss-only form also one of rank 1 and a size that divides T.
    (C5) logit_scale and softcap are finite, and logit_scale is not 0. (C6) weights are 1-D of T rows, f32 (f64).
  }];
  let arguments = (ins Graph_FloatTensor:$hidden, Graph_FloatTensor:$head, Graph_IntegerTensor:$targets, Optional<Graph_FloatTensor>:$scale,
                       Optional<Graph_FloatTensor>:$weights,
                       DefaultValuedAttr<F64Attr, "1.0">:$logit_scale, DefaultValuedAttr<F64Attr, "0.0">:$softcap);
  let results = (outs Graph_FloatTensor:$loss, Optional<Graph_FloatTensor>:$dhidden, Optional<Graph_FloatTensor>:$dhead);
  let assemblyFormat = [{
    $hidden `,` $head `,` $targets (`scale` $scale^ `:` type($scale) )? (`weights` $weights^ `:` type($weights))? attr-dict `:` type($hidden) `,` type($head) `,` type($targets) `->` type($loss)
    (`,` type($dhidden)^)? (`and` type($dhead)^)?
  }];
  let hasVerifier = 1;
}
#endif
