// Weights that are stored in fewer bits than they are multiplied in.
#ifndef ZTC_GRAPH_QUANTIZE
#define ZTC_GRAPH_QUANTIZE
include "compiler/Dialect/Graph/GraphBase.td"

/// The bytes of one weight, as runtime/Format/QuantizedWeight.h lays them out.
def Graph_ByteTensor : 1DTensorOf<[I8]>;

def Graph_DequantizeOp : Graph_Op<"dequantize", [Costed, Transient]> {
  let summary = "The numbers of a frozen weight, from the bytes that hold it in fewer bits.";
  let description = [{
        %w = graph.dequantize %codes format <nf4> : tensor<18004xi8> -> tensor<64x512xbf16>

    `format` is nf4 (blocks of 64 elements in row-major order, whose scales are stored in 8 bits), nf4_single (the same with scales in f32), mxfp4
    (blocks of 32, whose scales are powers of two) or int8 (a scale for each row): see runtime/Format/QuantizedWeight.h. Each number is the f32 product of its code's value and its scale,
    rounded once to y's type. A frozen weight gets no gradient, so the op needs no derivative.
    (C1) y is a matrix. (C2) `codes` is as long as the format says for a matrix of y's shape.
  }];
  let arguments = (ins Graph_ByteTensor:$codes, Graph_WeightFormatAttr:$format);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$codes `format` $format attr-dict `:` type($codes) `->` type($y)";
  let hasVerifier = 1;
}
#endif
