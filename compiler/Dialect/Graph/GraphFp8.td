// Products in fp8. These ops have a header of their own (Fp8.h): few files know of them.
#ifndef ZTC_GRAPH_FP8
#define ZTC_GRAPH_FP8
include "compiler/Dialect/Graph/GraphBase.td"

/// Codes of 8 bits. A code stands for its number divided by the scale of its tensor.
def Graph_Fp8Tensor : StaticShapeTensorOf<[Graph_Fp8]>;
/// Two f32: the scale, and its inverse.
def Graph_ScaleTensor : 1DTensorOf<[F32]>;

def Graph_QuantizeFp8Op : Graph_Op<"quantize_fp8", [Costed, Mixed,
    DeclareOpInterfaceMethods<LibraryCallOpInterface, ["getWorkspace", "getTransientResult"]>]> {
  let summary = "The fp8 codes of a matrix, with one scale for all of it.";
  let description = [{
        %scale, %q, %qt = graph.quantize_fp8 %x {by_columns, by_rows}
            : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>, tensor<16x32xf8E4M3FN>

    scale[0] = F / max(abs(x), 1e-12), where F is the largest number of the format (448 of e4m3, 57344 of e5m2), a quotient of f32; scale[1] is the
    f32 inverse of that. A code is the f32 product x * scale[0], rounded to nearest even and saturated (torchao's tensorwise dynamic scaling).
    Codes are given row by row as x has them (`by_rows`) and of the transposed matrix (`by_columns`), in this order: a product takes both of its
    operands with the summed dimension last. `weight` says that x is a parameter: its codes are made in front of each reader and never kept.
    (C1) x is a matrix whose sizes are multiples of 16. (C2) scale has two elements. (C3) there are as many results of codes as by_rows and
    by_columns ask for, at least one. (C4) their shapes are that of x, and that of x transposed. (C5) their formats are equal.
  }];
  let arguments = (ins Graph_FloatTensor:$x, UnitAttr:$by_rows, UnitAttr:$by_columns, UnitAttr:$weight);
  let results = (outs Graph_ScaleTensor:$scale, Variadic<Graph_Fp8Tensor>:$codes);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($scale) `,` type($codes)";
  let hasVerifier = 1;
}

def Graph_ScaledMatmulOp : Graph_Op<"scaled_matmul", [Costed, Mixed, AccumulatingWithWorkspace]> {
  let summary = "a * transposed(b) of fp8 codes, as the numbers that they stand for.";
  let description = [{
        %y = graph.scaled_matmul %a, %b scales %sa, %sb
            : tensor<32x16xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x64xbf16>

    y[m, n] = (sum_k a[m, k] * b[n, k]) * (sa[1] * sb[1]): an f32 sum of products that are exact, one f32 multiplication, one rounding to y's type.
    There is no other orientation, as libraries have none on most GPUs: quantize_fp8 gives what is needed.
    (C1) a, b and y are matrices. (C2) equal contraction sizes. (C3) y is (M, N). (C4) at most one operand is e5m2. (C5) scales have two elements.
  }];
  let arguments = (ins Graph_Fp8Tensor:$a, Graph_Fp8Tensor:$b, Graph_ScaleTensor:$scale_a, Graph_ScaleTensor:$scale_b);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$a `,` $b `scales` $scale_a `,` $scale_b attr-dict `:` type($a) `,` type($b) `,` type($scale_a) `,` type($scale_b) `->` type($y)";
  let hasVerifier = 1;
}
#endif
