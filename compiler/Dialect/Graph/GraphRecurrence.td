// What goes from position to position through a state: linear attention, convolutions of a few positions, and what the
// chunks of linear attention are made of. The ops have a header of their own (Recurrence.h): few files know of them.
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
    past is not. (C8) chunk is a power of two up to 64.
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
def Graph_StatePassingOp : Graph_Op<"state_passing", [AttrSizedOperandSegments, Differentiable, Costed, LibraryCall]> {
  let summary = "The states before each chunk of positions, one after the other.";
  let description = [{
        %before, %last, %x = graph.state_passing to %to : tensor<8x4x16xf32> from %from : tensor<8x4x16xf32> update %u : tensor<8x4x5xf32>
          decay %f : tensor<8x1x1xf32> {chunks = 4 : i64} : tensor<8x16x5xf32>, tensor<2x16x5xf32>, tensor<8x4x5xf32>
        %before, %last = graph.state_passing plus %e : tensor<8x16x5xf32> decay %f : tensor<8x16x1xf32> past %s : tensor<2x16x5xf32> {chunks = 4 : i64, reverse}
          : tensor<8x16x5xf32>, tensor<2x16x5xf32>

    N chunks of R states S (K, V): chunk n of state r is row n R + r of each operand but `past`. S_0 is past, or zeros without it, and in order of n,
    x_n = update_n + from_n S_n, S_{n+1} = decay_n S_n + to_n^T x_n + plus_n, where what is absent is 0 and a decay that is absent 1. `before` (N R, K, V) has
    S_n, `last` (R, K, V) the state after all chunks, x (N R, C, V) all x_n. With `reverse` chunk N - 1 is the first and chunk 0 the last.
    A decay (N R, 1 or K, F) is that of all rows of S or of each, and of V / F neighbouring columns each.
    It is the recurrence between chunks of linear attention (Yang et al., arXiv:2406.06484, section 3.2, and arXiv:2412.06464, section 3.3; Dao and Gu,
    arXiv:2405.21060, section 6). The cotangent of S_{n+1} goes through the chunks in the other order by the same rule, with `to` and `from` exchanged.
    (C1) to, from, update are there together, and x with them; without them `plus` is. (C2) `last` is 3-D, chunks at least 1, before (N R, K, V), and with it plus.
    (C3) to and from are (N R, C, K), update and x (N R, C, V). (C4) decay is (N R, 1 or K, F), F divides V. (C5) past is (R, K, V). (C6) All have one element type.
  }];
  let arguments = (ins Optional<Graph_FloatTensor>:$to, Optional<Graph_FloatTensor>:$from, Optional<Graph_FloatTensor>:$update, Optional<Graph_FloatTensor>:$plus,
                       Optional<Graph_FloatTensor>:$decay, Optional<Graph_FloatTensor>:$past, I64Attr:$chunks, UnitAttr:$reverse);
  let results = (outs Graph_FloatTensor:$before, Graph_FloatTensor:$last, Optional<Graph_FloatTensor>:$x);
  let assemblyFormat = [{(`to` $to^ `:` type($to))? (`from` $from^ `:` type($from))? (`update` $update^ `:` type($update))? (`plus` $plus^ `:` type($plus))?
                         (`decay` $decay^ `:` type($decay))? (`past` $past^ `:` type($past))? attr-dict `:` type($before) `,` type($last) (`,` type($x)^)?}];
  let hasVerifier = 1;
}

def Graph_UnitLowerInverseOp : Graph_Op<"unit_lower_inverse", [SameOperandsAndResultType, Differentiable, Costed, LibraryCall]> {
  let summary = "The inverse of matrices with ones on the diagonal and zeros above it.";
  let description = [{
        %y = graph.unit_lower_inverse %a : tensor<8x64x64xf32>

    y = (I + L)^-1 of each matrix of a (R, n, n), where L is its part below the diagonal; what else it has is not read. By forward substitution:
    y[i] = e_i - sum_{j < i} a[i, j] y[j], in order of j.
    (C1) a is (R, n, n), and n at most 64.
  }];
  let arguments = (ins Graph_FloatTensor:$a);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$a attr-dict `:` type($a)";
  let hasVerifier = 1;
}
def Graph_CausalFilterOp : Graph_Op<"causal_filter", [AttrSizedOperandSegments, AllTypesMatch<["x", "y"]>, Differentiable, Decomposable, Costed]> {
  let summary = "Each channel's weighted sum of its last few positions, of a row that begins with zeros.";
  let description = [{
        %y = graph.causal_filter %x by %taps : tensor<4x16xf32> bias %b : tensor<16xf32> : tensor<1x8x16xf32>

    What graph.causal_convolution is written out as: x is (B, T, C), taps (k, C), y[b, t, c] = sum_j taps[j, c] x[b, t - (k - 1) + j, c] + bias[c], where
    positions before the first, and those of other documents (`document_starts`, (B, T)), are zeros. Sums are f32 and rounded once.
    (C1) x is 3-D, taps 2-D with x's C. (C2) bias, where present, is (C), document_starts (B, T). (C3) x and y have the same type.
  }];
  let arguments = (ins Graph_FloatTensor:$x, Graph_FloatTensor:$taps, Optional<Graph_FloatTensor>:$bias, Optional<Graph_PlacesTensor>:$document_starts);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = [{$x `by` $taps `:` type($taps) (`bias` $bias^ `:` type($bias))? (`within` $document_starts^ `:` type($document_starts))? attr-dict
                         `:` type($x)}];
  let hasVerifier = 1;
}

def Graph_CausalFilterGradOp : Graph_Op<"causal_filter_grad", [AllTypesMatch<["x", "dy", "dx"]>, Decomposable, Costed, Mixed]> {
  let summary = "Cotangents of causal_filter: of x (row-wise), of each tap and of the bias (summed over rows).";
  let description = [{
    dx[b, t, c] = sum_j taps[j, c] dy[b, t + (k - 1) - j, c] over the positions that read position t; sums[j] (C) is that of dy[b, t, c] x[b, t - (k - 1) + j, c] over
    all positions t of all rows, and with `bias` one more that of dy.
    (C1) x is 3-D, taps (k, C); x, dy and dx have one type. (C2) there are k sums, with `bias` k + 1, each (C). (C3) document_starts is (B, T).
  }];
  let arguments = (ins Graph_FloatTensor:$x, Graph_FloatTensor:$taps, Graph_FloatTensor:$dy, Optional<Graph_PlacesTensor>:$document_starts, UnitAttr:$bias);
  let results = (outs Graph_FloatTensor:$dx, Variadic<Graph_FloatTensor>:$sums);
  let assemblyFormat = [{$x `by` $taps `:` type($taps) `cotangent` $dy (`within` $document_starts^ `:` type($document_starts))? attr-dict
                         `:` type($x) `->` type($sums)}];
  let hasVerifier = 1;
}
#endif
