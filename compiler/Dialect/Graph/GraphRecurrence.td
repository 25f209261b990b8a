// What goes from position to position through a state: linear attention, and convolutions of a few positions. The ops
// have a header of their own (Recurrence.h): few files know of them.
#ifndef ZTC_GRAPH_RECURRENCE
#define ZTC_GRAPH_RECURRENCE
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_LinearAttentionOp : Graph_Op<"linear_attention", [AttrSizedOperandSegments, Decomposable, Costed]> {
  let summary = "Attention through a state of fixed size: linear, with decay, by the delta rule, or both.";
  let description = [{
        %y, %state = graph.linear_attention %q, %k, %v, 2.5e-01 decay %g : tensor<1x8x2x1xf32> beta %b : tensor<1x8x2x1xf32> {chunk = 4 : i64, delta}
          : tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x2x16x4xf32>

    q is (B, T, Hq, K), k (B, T, H, K), v (B, T, H, V), decay (B, T, H, 1) or (B, T, H, K), beta (B, T, H, 1), past and `state` (B, H, K, V). Head h of q reads
    head h / (Hq/H). Each head starts with S_0 = past, or zeros without it. Let a = exp(decay), for the whole of S or for each of its rows; a = 1 without decay. Then
    S_t = a_t S_{t-1} + k_t v_t^T (Katharopoulos et al. 2020, eq. 18; with decay Yang et al. 2023, arXiv:2312.06635, eq. 3), or with `delta`
    S_t = a_t S_{t-1} + beta_t k_t (v_t - k_t^T a_t S_{t-1})^T (Yang et al. 2024, arXiv:2406.06484, section 2.2; with decay arXiv:2412.06464, eq. 10);
    y_t = scale q_t^T S_t, (B, T, Hq, V), and `state` is the last S.
    It is written out in chunks of `chunk` positions: inside of one by products of matrices, from one to the next by S. Every product and sum is f32 in every
    precision, as transformers has it.
    Of rows that hold several documents `document_starts` (B, T) says at which position of its row each position's document starts: there S is zeros.
    (C1) q, k, v are 4-D with equal B and T, k has q's K and v k's H. (C2) H divides Hq. (C3) decay is (B, T, H, 1) or (B, T, H, K).
    (C4) beta, there exactly with delta, is (B, T, H, 1). (C5) past and state are (B, H, K, V). (C6) y is (B, T, Hq, V). (C7) document_starts, if given, is (B, T) and
    past is not. (C8) chunk is a power of two.
  }];
  let arguments = (ins Graph_FloatTensor:$q, Graph_FloatTensor:$k, Graph_FloatTensor:$v, Optional<Graph_FloatTensor>:$decay, Optional<Graph_FloatTensor>:$beta,
                       Optional<Graph_FloatTensor>:$past, Optional<Graph_PlacesTensor>:$document_starts, F64Attr:$scale, I64Attr:$chunk, UnitAttr:$delta);
  let results = (outs Graph_FloatTensor:$y, Graph_FloatTensor:$state);
  let assemblyFormat = [{$q `,` $k `,` $v `,` $scale (`decay` $decay^ `:` type($decay))? (`beta` $beta^ `:` type($beta))? (`past` $past^ `:` type($past))?
                         (`within` $document_starts^ `:` type($document_starts))? attr-dict `:` type($q) `,` type($k) `,` type($v) `->` type($y) `,` type($state)}];
  let hasVerifier = 1;
}

def Graph_CausalConvolutionOp : Graph_Op<"causal_convolution", [AttrSizedOperandSegments, AllTypesMatch<["x", "y"]>, Decomposable, Costed]> {
  let summary = "Each channel's weighted sum of its last few positions.";
  let description = [{
        %y = graph.causal_convolution %x, %w bias %b : tensor<16xf32> : tensor<1x8x16xf32>, tensor<16x4xf32>

    x is (B, T, C), the weight (C, k), past (B, k - 1, C): y[b, t, c] = sum_j weight[c, j] x[b, t - (k - 1) + j, c] + bias[c], where positions before the first are
    those of past, or zeros.
    Of rows that hold several documents `document_starts` (B, T) says at which position of its row each position's document starts: what is before it is zeros.
    (C1) x is 3-D, the weight 2-D with x's C. (C2) bias, where present, is (C). (C3) past is (B, k - 1, C). (C4) document_starts, if given, is (B, T) and past
    is not. (C5) x and y have the same type.
  }];
  let arguments = (ins Graph_FloatTensor:$x, Graph_FloatTensor:$weight, Optional<Graph_FloatTensor>:$bias, Optional<Graph_FloatTensor>:$past,
                       Optional<Graph_PlacesTensor>:$document_starts);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = [{$x `,` $weight (`bias` $bias^ `:` type($bias))? (`past` $past^ `:` type($past))?
                         (`within` $document_starts^ `:` type($document_starts))? attr-dict `:` type($x) `,` type($weight)}];
  let hasVerifier = 1;
}
#endif
