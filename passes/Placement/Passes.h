// Phase `assign`: where values lie.
#pragma once
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Placement/Passes.h.inc"

/// Options of phase `assign`.
struct AssignOptions {
  uint64_t chunkBytes = 0;         ///< linear_cross_entropy: bytes of logits of one chunk, at most; 0: chosen
  uint64_t attentionBlock = 128;   ///< attention: query rows of one block, at most
  uint64_t stagingBytes = 1 << 20; ///< buffer for checkpoints, export and gradient dumps, at most
};

/// Adds the passes of phase `assign`, without its verifier.
void populateAssignPipeline(mlir::OpPassManager &pm, const AssignOptions &options = {});

/// Adds what phase `plan` does last: gradients that are rounded where they are computed.
void populateRoundedGradientsPipeline(mlir::OpPassManager &pm);

} // namespace ztc
