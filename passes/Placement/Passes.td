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
#endif
