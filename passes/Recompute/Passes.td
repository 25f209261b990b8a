// What is computed again in the backward part instead of being kept.
#ifndef ZTC_PASSES_RECOMPUTE
#define ZTC_PASSES_RECOMPUTE
include "mlir/Pass/PassBase.td"

def MarkRecomputed : Pass<"ztc-mark-recomputed", "mlir::ModuleOp"> {
  let summary = "Chooses what is computed again: ops of the forward part get `graph.recomputed`.";
  let description = [{
    A saved activation is a value of the forward part of `@microstep` (up to the op that computes the loss) that the backward part reads.
    - `cheap`: what no library runs (norms, activations, rope, pointwise ops), where all operands are parameters, saved in any case, or
      recomputed too: so nothing else has to be kept for it. A sum with a product that nobody keeps, as in the residual stream, does not qualify.
    - `layer`: everything of a transformer block. Of the last one only what `cheap` takes: its backward follows at once, when all its other
      activations would have to be there again.
    - `choice`: what the option `choice` says, groups of ops by block (RecomputeChoice.h): `0-30=pointwise+mlp/31=pointwise`.
    - any other name: what the policy that is registered under it chooses (passes/Recompute/Policies.h).

    What other blocks read, the residual stream, is always kept. An op that neither backward nor a clone reads is not marked. Where `cheap` or
    `layer` leave nothing to mark the pass fails: the level would change nothing.

        %s = graph.swiglu %g, %u : tensor<8x16xf32>

    becomes

        %s = graph.swiglu %g, %u {graph.recomputed} : tensor<8x16xf32>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
  let options = [
    Option<"level", "level", "std::string", "\"cheap\"", "cheap, layer, choice, or a registered policy">,
    Option<"choice", "choice", "std::string", "\"none\"", "groups by block">,
  ];
}

def CloneRecomputed : Pass<"ztc-clone-recomputed", "mlir::ModuleOp"> {
  let summary = "The backward part reads clones of what is marked, behind barriers.";
  let description = [{
    Clones stand right before the first op that reads them, and carry `graph.recomputation`. What they read of the forward part comes through
    `graph.recompute_barrier`, after a gradient that this op reads: nothing can merge them with their originals or move them to where these
    stand. Parameters come from the gather of their bucket that backward read last, whichever the original reads; where that stands only later it
    moves up. After a gather nothing reads an earlier one of the same bucket.

        %dg, %du = graph.swiglu_grad %g, %u, %d : tensor<8x16xf32>
        %dw = graph.matmul %dy, %s {transpose_a} : ...

    becomes

        %dg, %du = graph.swiglu_grad %g, %u, %d : tensor<8x16xf32>
        %g1 = graph.recompute_barrier %g after %dy : tensor<8x16xf32>, tensor<8x4xf32>
        %u1 = graph.recompute_barrier %u after %dy : tensor<8x16xf32>, tensor<8x4xf32>
        %s1 = graph.swiglu %g1, %u1 {graph.recomputation} : tensor<8x16xf32>
        %dw = graph.matmul %dy, %s1 {transpose_a} : ...
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect", "::ztc::dist::DistDialect"];
}
#endif
