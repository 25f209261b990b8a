// Frozen weights of products in fewer bits.
#ifndef ZTC_PASSES_QUANTIZATION
#define ZTC_PASSES_QUANTIZATION
include "mlir/Pass/PassBase.td"

def ChooseQuantized : Pass<"ztc-choose-quantized", "mlir::ModuleOp"> {
  let summary = "Marks the weights of linear modules: where they are not trained they are stored in fewer bits.";
  let description = [{
    Afterwards every matrix of `@forward` that is the second factor of a product, as it is or joined with others, has `graph.quantized`,
    but for the head and for a table of which rows are looked up: the modules that bitsandbytes replaces. Of mxfp4, which gpt-oss has its
    experts in, stacks of such matrices too. One whose rows are inputs, as in
    GPT-2's Conv1D, has `graph.quantized_transposed` too: bitsandbytes has the codes of (outputs, inputs). Phase `backward` begins with
    this, before adapters come; the mark goes along into every function that phase makes.

        %w: tensor<64x32xf32> {graph.name = "q_proj.weight"}

    becomes

        %w: tensor<64x32xf32> {graph.name = "q_proj.weight", graph.quantized = #graph.weight_format<nf4>}
  }];
  let options = [Option<"format", "format", "::ztc::graph::WeightFormat", "::ztc::graph::WeightFormat::Nf4", "nf4, nf4_single, mxfp4 or int8, see graph.dequantize", [{
    ::llvm::cl::values(clEnumValN(::ztc::graph::WeightFormat::Nf4, "nf4", ""), clEnumValN(::ztc::graph::WeightFormat::Int8, "int8", ""),
      clEnumValN(::ztc::graph::WeightFormat::Nf4Single, "nf4_single", ""),
      clEnumValN(::ztc::graph::WeightFormat::Mxfp4, "mxfp4", ""))
  }]>];
}

def QuantizeWeights : Pass<"ztc-quantize-weights", "mlir::ModuleOp"> {
  let summary = "Marked weights that are frozen become bytes, and numbers in front of each product.";
  let description = [{
    A stack is the bytes of its matrices, one below the other.
    Afterwards a frozen parameter with `graph.quantized` is the bytes of runtime/Format/QuantizedWeight.h, and each op that read it reads a
    `graph.dequantize` of its own, which stands in front of it; transposes, slices and joins of weights are repeated there too. So the numbers
    live from there to the product: never from the forward part to the backward part. `graph.source` says what is quantised: `format` and
    `quantized_shape`, the checkpoint's; with `quantized_transposed` the bytes are those of the transposed matrix, and products read that.
    Phase `shard` begins with this, where types and gradients are settled.

        %y = graph.matmul %x, %w {transpose_b} : tensor<8x32xbf16>, tensor<64x32xbf16> -> tensor<8x64xbf16>

    becomes, with %w: tensor<2164xi8>,

        %n = graph.dequantize %w format <nf4> : tensor<2164xi8> -> tensor<64x32xbf16>
        %y = graph.matmul %x, %n {transpose_b} : tensor<8x32xbf16>, tensor<64x32xbf16> -> tensor<8x64xbf16>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
  let options = [Option<"ownScales", "own-scales", "bool", "false",
    "Elements of nf4 have the scale of their own block also where rows are multiples of 16 and not of 64, and bitsandbytes on a processor with AVX-512 takes another one">];
}
#endif
