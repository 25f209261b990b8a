// Products in fp8. These ops have a header of their own (Fp8.h): few files know of them.
#ifndef ZTC_GRAPH_FP8
#define ZTC_GRAPH_FP8
include "compiler/Dialect/Graph/GraphBase.td"

/// Codes of 8 bits. A code stands for its number divided by the scale of its tensor.
def Graph_Fp8Tensor : StaticShapeTensorOf<[Graph_Fp8]>;
/// Two f32: the inverse of the scale, and the scale.
def Graph_ScaleTensor : 1DTensorOf<[F32]>;

def Graph_QuantizeFp8Op : Graph_Op<"quantize_fp8", [Costed, Mixed,
    DeclareOpInterfaceMethods<LibraryCallOpInterface, ["getWorkspace", "getTransientResult"]>]> {
  let summary = "The fp8 codes of a matrix, with one scale for all of it.";
  let description = [{
        %scale, %q, %qt = graph.quantize_fp8 %x {by_columns, by_rows}
            : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>, tensor<16x32xf8E4M3FN>

    scale[1] = F / max(abs(x), 1e-12), where F is the largest number of the format (448 of e4m3, 57344 of e5m2), a quotient of f32; scale[0] is the
    f32 inverse of that. A code is the f32 product x * scale[1], rounded to nearest even and saturated (torchao's tensorwise dynamic scaling).
    Codes are given row by row as x has them (`by_rows`) and of the transposed matrix (`by_columns`), in this order: a product takes both of its
    operands with the summed dimension last. `weight` says that x is a parameter: its codes are made in front of each reader and never kept.
    Where `amax` is given, its largest element is max(abs(x)): what wrote x has found the absolute maxima of its parts, and x is read once.
    (C1) x is a matrix whose sizes are multiples of 16. (C2) scale has two elements. (C3) there are as many results of codes as by_rows and
    by_columns ask for, at least one. (C4) their shapes are that of x, and that of x transposed. (C5) their formats are equal.
    (C6) amax has x's element type, and a multiple of 16 elements.
  }];
  let arguments = (ins Graph_FloatTensor:$x, Optional<Graph_FloatTensor>:$amax, UnitAttr:$by_rows, UnitAttr:$by_columns, UnitAttr:$weight);
  let results = (outs Graph_ScaleTensor:$scale, Variadic<Graph_Fp8Tensor>:$codes);
  let assemblyFormat = "$x (`amax` $amax^ `:` type($amax))? attr-dict `:` type($x) `->` type($scale) `,` type($codes)";
  let hasVerifier = 1;
}

def Graph_Fp8ScalesOp : Graph_Op<"fp8_scales", [Decomposable, Costed, AllTypesMatch<["amax", "scales"]>]> {
  let summary = "Scales of matrices of codes, from the absolute maxima that are known of these.";
  let description = [{
        %s = graph.fp8_scales %m largest %f : tensor<8xf32>, tensor<2xf32>

    Records of four numbers, one for each element of f, the largest numbers of formats: record i of the operand begins with an absolute maximum m, that of the
    result has the inverse of the scale f[i] / max(m, 1e-12), of 1 where m is 0 (nothing is known), then the scale; both again. Quotients of f32.
    (C1) operand and result hold a record for each element of f.
  }];
  let arguments = (ins Graph_ScaleTensor:$amax, Graph_ScaleTensor:$largest);
  let results = (outs Graph_ScaleTensor:$scales);
  let assemblyFormat = "$amax `largest` $largest attr-dict `:` type($scales) `,` type($largest)";
  let hasVerifier = 1;
}

def Graph_EncodeFp8Op : Graph_Op<"encode_fp8", [Costed, Mixed,
    DeclareOpInterfaceMethods<LibraryCallOpInterface, ["canAccumulate", "getWorkspace"]>]> {
  let summary = "The fp8 codes of a matrix with a scale that is known, and its absolute maximum.";
  let description = [{
        %m, %q, %qt = graph.encode_fp8 %x scale %s {by_columns, by_rows}
            : tensor<32x16xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x16xf8E4M3FN>, tensor<16x32xf8E4M3FN>

    As quantize_fp8, but for the scale: it is s[1] (s[0] is its inverse), whatever x holds, and x is read once. Codes beyond the largest number of the format
    are that number, of either sign. m = max(abs(x)), NaN where x has one.
    (C1) to (C5) of codes are those of quantize_fp8. (C6) the scale has two elements, m has one.
  }];
  let arguments = (ins Graph_FloatTensor:$x, Graph_ScaleTensor:$scale, UnitAttr:$by_rows, UnitAttr:$by_columns);
  let results = (outs Graph_ScaleTensor:$amax, Variadic<Graph_Fp8Tensor>:$codes);
  let assemblyFormat = "$x `scale` $scale attr-dict `:` type($x) `,` type($scale) `->` type($amax) `,` type($codes)";
  let hasVerifier = 1;
}

def Graph_Fp8CodesOp : Graph_Op<"fp8_codes", [Elementwise, Costed]> {
  let summary = "The fp8 codes of elements: those of encode_fp8, in the kernel that computes the elements.";
  let description = [{
        %q = graph.fp8_codes %x, %s : tensor<32x16xbf16>, tensor<32x16xf32> -> tensor<32x16xf8E4M3FN>

    The f32 product x * s, rounded to nearest even and saturated. (C1) s is f32, the result of a format of codes; all have one shape.
  }];
  let arguments = (ins Graph_FloatTensor:$x, Graph_FloatTensor:$scale);
  let results = (outs Graph_Fp8Tensor:$y);
  let assemblyFormat = "$x `,` $scale attr-dict `:` type($x) `,` type($scale) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_NoteCodesOp : Graph_Op<"note_codes", [Costed, Mixed, DeclareOpInterfaceMethods<LibraryCallOpInterface, ["canAccumulate"]>]> {
  let summary = "A matrix of fp8 codes, transposed, and the absolute maximum of its numbers from those of their parts.";
  let description = [{
        %m, %t = graph.note_codes %q amax %a : tensor<32x16xf8E4M3FN>, tensor<32x1xbf16> -> tensor<1xf32>, tensor<16x32xf8E4M3FN>

    m is the largest element of a, NaN where it has one. With the codes that a kernel has written and the maxima that it found, the two results are what
    encode_fp8 gives besides them. (C1) the codes are a matrix of sizes that are multiples of 16, and t has its shape transposed and its format.
    (C2) a has a multiple of 16 elements, m one.
  }];
  let arguments = (ins Graph_Fp8Tensor:$codes, Graph_FloatTensor:$parts);
  let results = (outs Graph_ScaleTensor:$amax, Graph_Fp8Tensor:$transposed);
  let assemblyFormat = "$codes `amax` $parts attr-dict `:` type($codes) `,` type($parts) `->` type($amax) `,` type($transposed)";
  let hasVerifier = 1;
}

def Graph_RowAmaxOp : Graph_Op<"row_amax", [Decomposable, Costed, Mixed]> {
  let summary = "The absolute maximum of each row of a matrix.";
  let description = [{
        %m = graph.row_amax %x : tensor<32x16xbf16> -> tensor<32x1xbf16>

    m[r, 0] = max over c of abs(x[r, c]); NaN where the row has one. Nothing is rounded.
    (C1) x is a matrix. (C2) m has a column, x's rows and its element type.
  }];
  let arguments = (ins Graph_FloatTensor:$x);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_TransposeCodesOp : Graph_Op<"transpose_codes", [Costed, Mixed, Transient]> {
  let summary = "A matrix of fp8 codes, transposed.";
  let description = [{
        %t = graph.transpose_codes %q : tensor<32x16xf8E4M3FN> -> tensor<16x32xf8E4M3FN>

    The codes of a weight that ranks have gathered, by columns: as those that quantize_fp8 makes, in front of each reader and never kept.
    (C1) the operand is a matrix whose sizes are multiples of 16. (C2) the result has its format, and its shape transposed.
  }];
  let arguments = (ins Graph_Fp8Tensor:$codes);
  let results = (outs Graph_Fp8Tensor:$y);
  let assemblyFormat = "$codes attr-dict `:` type($codes) `->` type($y)";
  let hasVerifier = 1;
}

def Graph_ScaledMatmulOp : Graph_Op<"scaled_matmul", [Costed, Mixed, AccumulatingWithWorkspace]> {
  let summary = "a * transposed(b) of fp8 codes, as the numbers that they stand for.";
  let description = [{
        %y = graph.scaled_matmul %a, %b scales %sa, %sb
            : tensor<32x16xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x64xbf16>

    y[m, n] = (sum_k a[m, k] * b[n, k]) * (sa[1] * sb[1]): an f32 sum of products that are exact, one f32 multiplication, one rounding to y's type.
    No other orientation is taken, since most GPUs have no product for one: quantize_fp8 gives what is needed.
    (C1) a, b and y are matrices. (C2) equal contraction sizes. (C3) y is (M, N). (C4) at most one operand is e5m2. (C5) scales have two elements.
  }];
  let arguments = (ins Graph_Fp8Tensor:$a, Graph_Fp8Tensor:$b, Graph_ScaleTensor:$scale_a, Graph_ScaleTensor:$scale_b);
  let results = (outs Graph_FloatTensor:$y);
  let assemblyFormat = "$a `,` $b `scales` $scale_a `,` $scale_b attr-dict `:` type($a) `,` type($b) `,` type($scale_a) `,` type($scale_b) `->` type($y)";
  let hasVerifier = 1;
}
#endif
