// How parameters, gradients and states lie in memory and on the mesh.
#ifndef ZTC_PASSES_SHARDING
#define ZTC_PASSES_SHARDING
include "mlir/Pass/PassBase.td"

def ChooseStage : Pass<"ztc-choose-stage", "mlir::ModuleOp"> {
  let summary = "The module knows its ZeRO stage and the mesh of ranks.";
  let description = [{
    Afterwards the module has a `dist.mesh @mesh ["data"]` and `dist.zero`, which every later pass reads; nothing else chooses a stage.

        module {...}

    becomes

        module attributes {dist.zero = 3 : i64} {
          dist.mesh @mesh ["data"]
  }];
  let dependentDialects = ["::ztc::dist::DistDialect"];
  let options = [Option<"zero", "zero", "unsigned", "0", "ZeRO stage: 0 nothing is sharded, 1 optimizer states, 2 gradients too, 3 parameters too">];
}

def FormBuckets : Pass<"ztc-form-buckets", "mlir::ModuleOp"> {
  let summary = "Parameters, gradients and optimizer states become views of flat buckets.";
  let description = [{
    Afterwards no function has a parameter, gradient or state argument: it takes one flat tensor per bucket (roles
    `parameter_bucket`, `gradient_bucket`, `state_bucket`, `master_bucket`), parameters are `dist.view`s of them, and
    `@microstep` adds each gradient into the gradient buckets that it takes and returns. `@update` works on whole buckets.

        func.func @eval(%tokens, %targets, %w: tensor<8x4xf32> {graph.role = #graph.role<parameter>, graph.name = "lm_head.weight"})

    becomes

        dist.bucket @head {...}
        func.func @eval(%tokens, %targets, %b: tensor<32xf32> {graph.role = #graph.role<parameter_bucket>, graph.bucket = @head}) {
          %w = dist.view %b[0] : tensor<32xf32> -> tensor<8x4xf32>

    One bucket per transformer block, of the first block several where that is worth it (`@block0_tail` has what it reads last: nothing is computed while a
    whole one would be gathered, and nothing after its gradients are there; `@block0_undecayed` what has no weight decay); embedding, untied head and the rest on their own; trainable and frozen apart. Inside: parameters
    with weight decay (without `graph.no_decay`) first; q, k, v and gate, up adjacent. A bucket holds one type: what a policy keeps in f32
    beside narrow parameters lies in buckets of its own (`@block3_f32`), and so do weights that products in fp8 alone read (`@block3_fp8`). Gradient buckets of `@microstep` have the type that ops compute in,
    those of `@update` that of the parameters.

    In a module with a mesh (`dist.zero`) the buckets are `tensor<?xf32, #dist.full<@head>>`: whole ones, at every stage and for one rank too.
  }];
  let dependentDialects = ["::ztc::dist::DistDialect"];
}

def JoinStacks : Pass<"ztc-join-stacks", "mlir::ModuleOp"> {
  let summary = "Parameters that are read as one stack, and lie side by side in a bucket, are one view of it: the experts' matrices.";
  let description = [{
    Afterwards no concatenation along the first axis has inputs that follow one another in a bucket, and gradients that are rows of one, all of them and in order, are
    added to such neighbours in one place:

        %a = dist.view %bucket[0] : tensor<64xf32> -> tensor<8x4xf32>
        %b = dist.view %bucket[32] : tensor<64xf32> -> tensor<8x4xf32>      =>    %w = dist.view %bucket[0] : tensor<64xf32> -> tensor<16x4xf32>
        %w = graph.concat %a, %b axis 0 : ...

    Phase `shard` lays parameters of one stack side by side. Where their sizes are not multiples of the alignment of parameters the concatenation stays, a copy.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect", "::ztc::dist::DistDialect"];
}

def MergeProducts : Pass<"ztc-merge-products", "mlir::ModuleOp"> {
  let summary = "Products with matrices that are neighbours in a bucket are one: q, k, v and gate, up.";
  let description = [{
    Afterwards no two products of one left factor have right factors, transposed weights, that lie next to one another in a bucket; what read them
    reads slices. Likewise in backward: a sum of products of cotangents with neighbouring weights is one product with all of them, rounded once, of the
    cotangents side by side; the weights' gradients are one product, added in one place.

        %g = graph.matmul %x, %wg {transpose_b} : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
        %u = graph.matmul %x, %wu {transpose_b} : tensor<8x4xf32>, tensor<16x4xf32> -> tensor<8x16xf32>
        ...
        %a = graph.matmul %dg, %wg : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
        %b = graph.matmul %du, %wu : tensor<8x16xf32>, tensor<16x4xf32> -> tensor<8x4xf32>
        %dx = graph.add %a, %b : tensor<8x4xf32>

    becomes

        %w = dist.view %bucket[0] : tensor<128xf32> -> tensor<32x4xf32>
        %y = graph.matmul %x, %w {transpose_b} : tensor<8x4xf32>, tensor<32x4xf32> -> tensor<8x32xf32>
        %g = graph.slice %y, [0, 0] : tensor<8x32xf32> -> tensor<8x16xf32>
        %u = graph.slice %y, [0, 16] : tensor<8x32xf32> -> tensor<8x16xf32>
        ...
        %dy = graph.concat %dg, %du axis 1 : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x32xf32>
        %dx = graph.matmul %dy, %w : tensor<8x32xf32>, tensor<32x4xf32> -> tensor<8x4xf32>

    Excluded are values that would have to be copied: results that a library reads, where the merged one is kept for backward or they are more than
    half of it; cotangents of which less than half comes from kernels that can write them in place.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect", "::ztc::dist::DistDialect"];
}

def PartitionStates : Pass<"ztc-partition-states", "mlir::ModuleOp"> {
  let summary = "Every bucket argument and result gets the layout of the ZeRO stage.";
  let description = [{
    Afterwards the types of arguments and results are final (RationaleDist.md, "The stages"), and whatever changes a layout is an op: own_shard
    where a rank needs only its part of a bucket, all_gather where it needs the whole one. What is still missing are sums over ranks.

    At stages 0 and 1 `@microstep` also returns, per trainable bucket, the own shard of the gradient as `reduced_gradient`; at stages 2 and 3 a local
    gradient is no longer added up in place, only its own shard is (whose rounded form is `reduced_gradient` where the wire is narrower):

        %sum = graph.accumulate %slot, %dw {first_writes} : tensor<8x4xf32>
        %g = dist.pack %sum at [0] : tensor<8x4xf32> -> tensor<?xf32, #dist.full<@head>>
        return %g

    becomes

        %g = dist.pack %dw at [0] : tensor<8x4xf32> -> tensor<?xf32, #dist.full<@head>>
        %own = dist.own_shard %g : tensor<?xf32, #dist.full<@head>> -> tensor<?xf32, #dist.shard<@head>>
        %sum = graph.accumulate %gradients, %own {first_writes} : tensor<?xf32, #dist.shard<@head>>
        return %sum

    Where parameters are narrow, a local gradient is rounded to their type before its own shard is taken (`graph.cast` of the whole bucket: it is
    complete, and rounded once); from stage 2 on what comes back is widened before it is added.

    `@update` takes gradients as shards at every stage; its norm reads these, its AdamW works on whole buckets at stage 0 and on shards from stage 1 on.
  }];
  let dependentDialects = ["::ztc::dist::DistDialect"];
}

def InsertCollectives : Pass<"ztc-insert-collectives", "mlir::ModuleOp"> {
  let summary = "Sums over ranks are explicit, and parameters are gathered where they are used.";
  let description = [{
    Afterwards a step is right on any number of ranks:
    - the own shard of each local gradient is a reduce_scatter (`only_last` at stages 0 and 1), right after the gradient's last part;
    - the sum of squares that gives the norm goes through one all_reduce;
    - a direction that Muon makes orthogonal is that of one rank (own_matrix), and the bucket of all of them is reduce_scattered (and gathered again
      at stage 0);
    - at stage 3 a bucket is gathered right before each run of its uses, and what reads it in another run reads another gather
      (RationaleDist.md, "Gathers at stage 3"). A remark says how often each bucket is gathered.

    CSE may run after this pass: collectives are not pure, so it does not merge the gathers of a bucket.
  }];
  let dependentDialects = ["::ztc::dist::DistDialect"];
}

def GatherCodes : Pass<"ztc-gather-codes", "mlir::ModuleOp"> {
  let summary = "Weights that products in fp8 alone read are gathered as codes of 8 bits.";
  let description = [{
    Afterwards `@microstep` gathers no bucket in 16 bits whose readers all make e4m3 codes of it: each rank makes the codes of its shard, with the scales that whole
    weights would give, and these are gathered. The absolute maxima that the scales are made of are found in the shards, those of all buckets at the
    function's start, and one all_reduce_max gives the largest of all ranks. What products read are views of the gathered codes; what they read transposed,
    `graph.transpose_codes` in front of them. Codes and scales have the bits of those that are made of gathered numbers.

        %f = dist.all_gather %s axis "data" : tensor<?xbf16, #dist.shard<@block0_fp8>> -> tensor<?xbf16, #dist.full<@block0_fp8>>
        %w = dist.view %f[0] : tensor<?xbf16, #dist.full<@block0_fp8>> -> tensor<32x16xbf16>
        %m = graph.row_amax %w : tensor<32x16xbf16> -> tensor<32x1xbf16>
        %t, %q = graph.quantize_fp8 %w amax %m : tensor<32x1xbf16> {by_rows, weight} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>

    becomes

        %own = dist.shard_amax %s ranges [0, 0, 512] : tensor<?xbf16, #dist.shard<@block0_fp8>> -> tensor<1xf32>
        %m = dist.all_reduce_max %own axis "data" : tensor<1xf32>
        ...
        %c, %t = dist.shard_codes %s amax %m[0] ranges [0, 512] : tensor<?xbf16, #dist.shard<@block0_fp8>>, tensor<1xf32> -> tensor<?xf8E4M3FN, #dist.shard<@block0_fp8>>, tensor<2xf32>
        %f = dist.all_gather %c axis "data" : tensor<?xf8E4M3FN, #dist.shard<@block0_fp8>> -> tensor<?xf8E4M3FN, #dist.full<@block0_fp8>>
        %q = dist.view %f[0] : tensor<?xf8E4M3FN, #dist.full<@block0_fp8>> -> tensor<32x16xf8E4M3FN>

    A bucket whose weights are multiplied together here and apart there, which then have several scales, stays as it is, with a remark.
  }];
  let dependentDialects = ["::ztc::dist::DistDialect", "::ztc::graph::GraphDialect"];
}
#endif
