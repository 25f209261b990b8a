// Phase `recompute`: what is computed again in the backward part instead of being kept from the forward part.
#pragma once
#include "compiler/Analysis/RecomputeChoice.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <string>

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Recompute/Passes.h.inc"

/// Options of phase `recompute`.
struct RecomputeOptions {
  std::string level;      ///< a policy's name (Policies.h), or choice; empty: nothing is recomputed
  RecomputeChoice choice; ///< with the level choice
};

/// Adds the passes of phase `recompute`, without its verifier.
void populateRecomputePipeline(mlir::OpPassManager &pm, const RecomputeOptions &options = {});

} // namespace ztc
