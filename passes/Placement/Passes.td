// Where values lie.
#ifndef ZTC_PASSES_PLACEMENT
#define ZTC_PASSES_PLACEMENT
include "mlir/Pass/PassBase.td"

def AssignSlots : Pass<"ztc-assign-slots", "mlir::ModuleOp"> {
  let summary = "Every value gets a place: a slot of the arena and an offset in it.";
  let description = [{
    Afterwards the module holds a `plan.slot` for each piece of memory, and
    - each function argument has a `plan.place`, each op an array `plan.places` with a place per result;
    - a value that is added to what its place holds says so in `plan.accumulate` (one entry per result);
    - an op that needs workspace has `plan.scratch`, a library call that works in pieces `plan.chunk`.
    Aliases (reshape, view, pack, accumulate, barrier) have the place of what they alias, so they cost nothing: the parts of a gradient
    bucket are produced where they belong, updated parameters and states overwrite the old ones. Where that is not possible a
    `dist.copy` stands in between, with a remark.

        %g = graph.matmul %dy, %x {transpose_a}  {plan.accumulate = [#plan.accumulate<add_unless_first>], plan.places = [#plan.place<@block0.gradient, 256>]}
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect", "::ztc::dist::DistDialect"];
  let options = [
    Option<"chunkBytes", "chunk-bytes", "uint64_t", "0", "linear_cross_entropy: bytes of logits of one chunk, at most; 0: 16 MiB, or 512 rows where that is little beside the parameters">,
    Option<"attentionBlock", "attention-block", "uint64_t", "128", "attention: query rows of one block, at most">,
    Option<"stagingBytes", "staging-bytes", "uint64_t", "1048576", "bytes of the buffer for checkpoints, export and gradient dumps">,
  ];
}

def RoundInProducts : Pass<"ztc-round-in-products", "mlir::ModuleOp"> {
  let summary = "A product that alone gives a parameter's gradient rounds it to the type in which it is reduced, where nothing is added to it.";
  let description = [{
    Runs on the plan. A bucket's gradient is f32 until all of it is there, and is then rounded (`plan.narrow`): with several micro-steps at stages 0 and 1 in the
    last one, at stages 2 and 3 in each. What a product gives alone is its f32 sum, which is rounded once, whoever does it: afterwards such products write the
    rounded bucket, 2 bytes in place of 4, 4 and 2; so

    - in every micro-step where each is rounded,
    - else in steps of one micro-step: product and rounding exist twice, `only_if_accumulating` as they were, `unless_accumulating` as described here.

    That holds for buckets that begin with such products and consist of these for the most part; what follows, gradients of norms and biases, passes through a
    slot of its own in f32. No bit changes, at any stage on any number of ranks.

        plan.gemm "w" [..., #plan.operand<write @b.local_gradient, 0, 16384>, ...] {type_a = bf16, type_c = f32}
        plan.launch "norm" [#plan.operand<write @b.local_gradient, 16384, 256>, ...]
        plan.narrow "round" [#plan.operand<read @b.local_gradient, 0, 0>, #plan.operand<write @b.wire_gradient, 0, 0>]

    becomes

        plan.gemm "w" [..., #plan.operand<write @b.wire_gradient, 0, 8192>, ...] {type_a = bf16, type_c = bf16}
        plan.launch "norm" [#plan.operand<write @b.wire_gradient.unrounded, 0, 256>, ...]
        plan.narrow "round" [#plan.operand<read @b.wire_gradient.unrounded, 0, 256>, #plan.operand<write @b.wire_gradient, 8192, 128>]
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
}
#endif
