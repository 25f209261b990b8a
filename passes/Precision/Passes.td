// Which type every value is stored in.
#ifndef ZTC_PASSES_PRECISION
#define ZTC_PASSES_PRECISION
include "mlir/Pass/PassBase.td"

def AssignStorage : Pass<"ztc-assign-storage", "mlir::ModuleOp"> {
  let summary = "Parameters, activations and their gradients take the policy's narrow type.";
  let description = [{
    Afterwards the module has `graph.precision`. In `@microstep`, `@eval` and `@generate` of a bf16, fp16 or fp8 module:
    - what an op reads and gives has the storage that its row of the policy table names (PrecisionOpInterface): a parameter, an activation, an
      activation's gradient narrow; a statistic, the loss, logits that are returned and the gradient of a parameter f32;
    - an elementwise op is narrow where all its operands are; with a statistic, or a constant that the narrow type cannot hold, it is f32,
      and the chain of such ops is rounded where it ends or where a value of it has a second reader: what is stored is narrow;
    - a vector that is computed from parameters and constants alone, as Gemma's 1 + w, is f32;
    - what the graph marks as wide, as a router's scores, is f32 and is not rounded, and neither is its derivative; its products read
      narrow operands; a parameter that is marked so is f32, and all that reads it is;
    - a layer that `keep` excepts is f32 throughout, its parameters too: patterns are matched against checkpoint names and against the
      module paths that ops carry as locations. A pattern that matches neither is an error.

    Precision fp32 changes nothing.

        %y = graph.matmul %x, %w {transpose_b} : tensor<8x4xf32>, tensor<6x4xf32> -> tensor<8x6xf32>
        %dw = graph.matmul %dy, %x {transpose_a} : tensor<8x6xf32>, tensor<8x4xf32> -> tensor<6x4xf32>

    becomes

        %y = graph.matmul %x, %w {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
        %dw = graph.matmul %dy, %x {transpose_a} : tensor<8x6xbf16>, tensor<8x4xbf16> -> tensor<6x4xf32>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
  let options = [Option<"precision", "precision", "::ztc::StoragePrecision", "::ztc::StoragePrecision::Fp32", "fp32, bf16, fp16 or fp8 (storage is that of bf16)", [{
                   ::llvm::cl::values(clEnumValN(::ztc::StoragePrecision::Fp32, "fp32", ""), clEnumValN(::ztc::StoragePrecision::Bf16, "bf16", ""),
                                      clEnumValN(::ztc::StoragePrecision::Fp16, "fp16", ""), clEnumValN(::ztc::StoragePrecision::Fp8, "fp8", ""))
                 }]>,
                 ListOption<"keep", "keep", "std::string", "regular expressions over checkpoint names and module paths: f32">];
}

def ChooseFp8Products : Pass<"ztc-choose-fp8-products", "mlir::ModuleOp"> {
  let summary = "In precision fp8 products of the blocks are marked.";
  let description = [{
    Afterwards a product of `@microstep` that is a linear layer of a transformer block, or a gradient of one, has the attribute `graph.fp8`, the format of
    cotangents, where its sizes are multiples of 16. Phase `shard` merges such products with their neighbours, then `ztc-quantize-products` quantises
    what they read: a merged matrix has one scale. With `scaling` delayed the module has `graph.delayed_scaling`.

    Attention, the head, embeddings, routers, experts, adapters, norms and layers that `keep` or the policy for fp32 excepts stay as they are, and so do
    evaluation and generation, whose results then do not depend on which rows are computed together.

        %y = graph.matmul %x, %w {transpose_b} : tensor<32x16xbf16>, tensor<48x16xbf16> -> tensor<32x48xbf16>

    becomes

        %y = graph.matmul %x, %w {graph.fp8 = f8E5M2, transpose_b} : tensor<32x16xbf16>, tensor<48x16xbf16> -> tensor<32x48xbf16>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
  let options = [Option<"scaling", "scaling", "::ztc::Fp8Scaling", "::ztc::Fp8Scaling::Dynamic", "scales of activations and cotangents: dynamic or delayed", [{
                   ::llvm::cl::values(clEnumValN(::ztc::Fp8Scaling::Dynamic, "dynamic", ""), clEnumValN(::ztc::Fp8Scaling::Delayed, "delayed", ""))
                 }]>,
                 Option<"gradients", "gradients", "::ztc::CotangentFormat", "::ztc::CotangentFormat::E5m2", "format of cotangents: e5m2 or e4m3", [{
                   ::llvm::cl::values(clEnumValN(::ztc::CotangentFormat::E5m2, "e5m2", ""), clEnumValN(::ztc::CotangentFormat::E4m3, "e4m3", ""))
                 }]>,
                 ListOption<"keep", "keep", "std::string", "regular expressions over checkpoint names and module paths: bf16">];
}

def FuseResiduals : Pass<"ztc-fuse-residuals", "mlir::ModuleOp"> {
  let summary = "A narrow product that a stored value is added to adds it before it is rounded.";
  let description = [{
    Afterwards a product of the forward part, in every function but `@update`, whose one reader was a sum with a value that is stored anyway (a library
    call gives it, or more ops of the forward part read it: the residual stream) is a `graph.matmul_add`. The value is rounded once, and a pass over
    the stream that reads two tensors and writes one is saved. A sum that a kernel makes with other ops, as with a bias, stays in that kernel; where
    `ztc-fuse-biases`, which runs before, has made the product add its bias, the product adds both.
    Shapes are looked through: a row that is generated with a cache has other shapes than the whole text, and must have its bits.

        %y = graph.matmul %x, %w {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
        %h = graph.add %r, %y : tensor<8x6xbf16>

    becomes

        %h = graph.matmul_add %x, %w, %r {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16>

    and where %y is a `graph.matmul_bias` with %bias, that is

        %h = graph.matmul_add %x, %w, %r bias %bias : tensor<6xbf16> {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16>
  }];
  let options = [Option<"enabled", "enabled", "bool", "true", "whether anything is done: phase precision asks for it where its pass option says so alone">];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def FuseBiases : Pass<"ztc-fuse-biases", "mlir::ModuleOp"> {
  let summary = "A narrow product that a bias is added to adds it before it is rounded.";
  let description = [{
    Afterwards a product of two matrices in the forward part, in every function but `@update`, whose one reader was a sum with a vector over its columns, is a
    `graph.matmul_bias`. The value is rounded once. The sum's kernel, which reads and writes the whole product, is gone, or where it does more, as an activation
    or the residual's sum, it reads a vector less and need not store the sum for the backward part: this saves bytes and launches, or nothing, and never costs any.
    The gradients are what they were: the bias's is the sum over the rows of the product's cotangent.
    Shapes are looked through: a row that is generated with a cache has other shapes than the whole text, and must have its bits.
    Products of other ranks (experts), in f32 or of fp8 codes stay as they are, and so do biases of another type than the product. A product
    is not fused if the row length of an operand or of the result is not a multiple of 8: there cuBLASLt rounds before it adds the bias.
    Weights that lie side by side are multiplied as one by `ztc-merge-products` where their biases lie side by side too.

        %y = graph.matmul %x, %w {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16> -> tensor<8x6xbf16>
        %v = graph.broadcast %bias : tensor<6xbf16> -> tensor<8x6xbf16>
        %h = graph.add %y, %v : tensor<8x6xbf16>

    becomes

        %h = graph.matmul_bias %x, %w, %bias {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<6xbf16> -> tensor<8x6xbf16>
  }];
  let options = [Option<"enabled", "enabled", "bool", "true", "whether anything is done: phase precision asks for it where its pass option says so alone">];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def FuseActivations : Pass<"ztc-fuse-activations", "mlir::ModuleOp"> {
  let summary = "A product with a bias that GELU is made of gives GELU before it is rounded.";
  let description = [{
    Afterwards a `graph.matmul_bias` of the forward part, in every function but `@update`, whose sum is read by the tanh form of GELU written out (GPT-2's
    gelu_new, gelu_pytorch_tanh), and that by products alone, is a `graph.matmul_gelu`. GELU is made of the f32 sum and rounded once, where each op that it is written out in
    rounds. The kernels that compute it are gone, with what they store for the backward part, which has the rounded sum: what its gradient reads is computed there, of that sum,
    by the gradient's kernel. Where nothing else reads the sum it is not stored, as in evaluation.
    What costs: to compute GELU's result again the product is computed again, while a kernel makes it of the sum; where memory does not hold both, the option does not pay.
    A GELU stays as it is if a generated kernel reads it, as in a gated MLP, or if the product's number of columns is not divisible by 8. The pass needs `ztc-fuse-biases`, which runs before it.
    Shapes are looked through: a row that is generated with a cache has other shapes than the whole text, and must have its bits.

        %h = graph.matmul_bias %x, %w, %bias {transpose_b} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
        ...
        %t = graph.tanh %u : tensor<8x16xf32>
        ...
        %y = graph.cast %g : tensor<8x16xf32> -> tensor<8x16xbf16>

    becomes

        %y, %h = graph.matmul_gelu %x, %w, %bias {transpose_b} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>, tensor<8x16xbf16>
  }];
  let options = [Option<"enabled", "enabled", "bool", "true", "whether anything is done: phase precision asks for it where its pass option says so alone">];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def QuantizeProducts : Pass<"ztc-quantize-products", "mlir::ModuleOp"> {
  let summary = "Products that `graph.fp8` marks read codes of 8 bits.";
  let description = [{
    Afterwards a marked product of `@microstep` is a `graph.scaled_matmul`, and the codes of its operands are made by `graph.quantize_fp8`:
    - of an activation or a cotangent once, in front of the first product that reads it, in the orders that products ask for; what the backward part
      reads of an activation are then its codes;
    - of a weight in front of each product, marked `weight`: its codes are not kept for the backward part, but the absolute maxima of its rows are,
      which `graph.row_amax` finds once in front of the first.

    Activations and weights are e4m3, cotangents have the format that the mark says.

    Where the module has `graph.delayed_scaling`, codes of activations and cotangents are made by `graph.encode_fp8` with scales that `graph.fp8_scales` makes
    of an argument `fp8_amax` of `@microstep`; a result `fp8_maxima` has the absolute maxima of this micro-step, and `@update` makes of those of all
    micro-steps and ranks what the next step is told. Each matrix has a record of four numbers there.

        %y = graph.matmul %x, %w {graph.fp8 = f8E5M2, transpose_b} : tensor<32x16xbf16>, tensor<48x16xbf16> -> tensor<32x48xbf16>

    becomes

        %s, %q = graph.quantize_fp8 %x {by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>
        %m = graph.row_amax %w : tensor<48x16xbf16> -> tensor<48x1xbf16>
        %t, %p = graph.quantize_fp8 %w amax %m : tensor<48x1xbf16> {by_rows, weight} : tensor<48x16xbf16> -> tensor<2xf32>, tensor<48x16xf8E4M3FN>
        %y = graph.scaled_matmul %q, %p scales %s, %t : tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x48xbf16>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect", "::ztc::dist::DistDialect"];
}

def StoreMasters : Pass<"ztc-store-masters", "mlir::ModuleOp"> {
  let summary = "`@update` works on narrow parameters with their masters, and on states of the type asked for.";
  let description = [{
    `@update` is built anew for the types that the parameters of `@microstep` have: a gradient arrives in its parameter's type, which is that of
    the wire; the states of the optimizer have the type `state`; a narrow parameter has an argument and a result `master`, after all others of @update: the
    i16 remainder beside bf16, the f32 master beside f16. Gradients of a loss that was scaled (fp16) are divided by the scale in the norm and in
    the update. With `state` int8 those of a parameter
    that is marked `graph.block_states` are flat tensors of block8; the pass marks what is trained, but for tables of embeddings and tensors of
    fewer than `block-from` elements. With `masters` none a bf16 parameter has no master: it is rounded stochastically. Where no type changes, the function
    stays as it is.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
  let options = [Option<"state", "state", "::ztc::StateFormat", "::ztc::StateFormat::Fp32", "states of the optimizer: fp32, bf16 or int8", [{
                   ::llvm::cl::values(clEnumValN(::ztc::StateFormat::Fp32, "fp32", ""), clEnumValN(::ztc::StateFormat::Bf16, "bf16", ""),
                                      clEnumValN(::ztc::StateFormat::Int8, "int8", "codes with a scale for each 256 elements"))
                 }]>,
                 Option<"blockFrom", "block-from", "uint64_t", "4096", "with int8: tensors of fewer elements keep their states in f32">,
                 Option<"masters", "masters", "::ztc::MasterFormat", "::ztc::MasterFormat::Fp32", "of bf16 parameters: fp32 or none", [{
                   ::llvm::cl::values(clEnumValN(::ztc::MasterFormat::Fp32, "fp32", ""), clEnumValN(::ztc::MasterFormat::None, "none", ""))
                 }]>];
}
#endif
