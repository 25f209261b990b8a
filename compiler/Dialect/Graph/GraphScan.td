// States whose numbers decay each by itself: the selective scan. The ops have a header of their own (Scan.h): few files know of them.
#ifndef ZTC_GRAPH_SCAN
#define ZTC_GRAPH_SCAN
include "compiler/Dialect/Graph/GraphBase.td"

def Graph_F32Tensor : StaticShapeTensorOf<[F32]>;

def Graph_SelectiveScanOp : Graph_Op<"selective_scan", [Differentiable, Costed, Mixed, LibraryCall]> {
  let summary = "Channels that each read and write a state of a few numbers (Mamba).";
  let description = [{
        %y, %states = graph.selective_scan %v, %delta, %rate, %b, %c {chunk = 32 : i64}
          : tensor<1x40x16xf32>, tensor<6x16xf32>, tensor<1x40x6xf32> -> tensor<1x40x16xf32>, tensor<1x2x6x16xf32>

    v and delta are (B, T, D), rate (N, D), b and c (B, T, N). Each channel d starts with a state h_0 of N zeros; then (Gu and Dao 2023, arXiv:2312.00752, algorithm 2)
    h_t[n] = exp(delta_t rate[n]) h_{t-1}[n] + v_t b_t[n] and y_t = sum_n c_t[n] h_t[n], where delta, v and y are the channel's, b and c those of all channels.
    `states` (B, ceil(T / chunk), N, D) are what stands before each `chunk` positions: the gradient computes the states between them again.
    Of rows that hold several documents `document_starts` (B, T) says at which position of its row each position's document starts: there h is zeros.
    (C1) v is 3-D, delta as v. (C2) rate is (N, D). (C3) b and c are (B, T, N). (C4) y is as v, states as above. (C5) document_starts, if given, is (B, T).
    (C6) chunk is a multiple of 8. (C7) D is a multiple of 16. (C8) N is at most 64.
  }];
  let arguments = (ins Graph_F32Tensor:$v, Graph_F32Tensor:$delta, Graph_F32Tensor:$rate, Graph_F32Tensor:$b, Graph_F32Tensor:$c,
                       Optional<Graph_PlacesTensor>:$document_starts, I64Attr:$chunk);
  let results = (outs Graph_F32Tensor:$y, Graph_F32Tensor:$states);
  let assemblyFormat = [{$v `,` $delta `,` $rate `,` $b `,` $c (`within` $document_starts^ `:` type($document_starts))? attr-dict
                         `:` type($v) `,` type($delta) `,` type($rate) `,` type($b) `,` type($c) `->` type($y) `,` type($states)}];
  let hasVerifier = 1;
}

def Graph_SelectiveScanGradOp : Graph_Op<"selective_scan_grad", [Costed, Mixed, WithWorkspace]> {
  let summary = "The cotangents of graph.selective_scan.";
  let description = [{
    Of dy, which is as y. With a_t[n] = exp(delta_t rate[n]) the state's cotangent is g_t[n] = c_t[n] dy_t + a_{t+1}[n] g_{t+1}[n]; then dv_t = sum_n b_t[n] g_t[n] and,
    with p_t[n] = g_t[n] h_{t-1}[n] a_t[n], ddelta_t = sum_n rate[n] p_t[n]. What all positions have in common is given for each row, drate[n] = sum_t delta_t p_t[n];
    what all channels have in common for each 64 of them: db_t[n] = sum_d v_t g_t[n], dc_t[n] = sum_d dy_t h_t[n]. Who wants the whole adds them up.
    (C1) v, delta, rate, b, c, states, document_starts and chunk are as those of graph.selective_scan. (C2) dy, dv and ddelta are as v. (C3) drate is (B, N, D).
    (C4) db and dc are (ceil(D / 64), B, T, N).
  }];
  let arguments = (ins Graph_F32Tensor:$v, Graph_F32Tensor:$delta, Graph_F32Tensor:$rate, Graph_F32Tensor:$b, Graph_F32Tensor:$c,
                       Graph_F32Tensor:$states, Graph_F32Tensor:$dy, Optional<Graph_PlacesTensor>:$document_starts, I64Attr:$chunk);
  let results = (outs Graph_F32Tensor:$dv, Graph_F32Tensor:$ddelta, Graph_F32Tensor:$drate, Graph_F32Tensor:$db, Graph_F32Tensor:$dc);
  let assemblyFormat = [{$v `,` $delta `,` $rate `,` $b `,` $c `,` $states `,` $dy (`within` $document_starts^ `:` type($document_starts))? attr-dict
                         `:` type($v) `,` type($delta) `,` type($rate) `,` type($b) `,` type($c) `,` type($states) `,` type($dy) `->` type($dv) `,` type($ddelta) `,`
                         type($drate) `,` type($db) `,` type($dc)}];
  let hasVerifier = 1;
}
#endif
