// Phase `recompute`: what is computed again in the backward part instead of being kept from the forward part.
#pragma once
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <string>

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Recompute/Passes.h.inc"

/// Options of phase `recompute`.
struct RecomputeOptions {
  std::string level; ///< cheap or layer; empty: nothing is recomputed
};

/// Adds the passes of phase `recompute`, without its verifier.
void populateRecomputePipeline(mlir::OpPassManager &pm, const RecomputeOptions &options = {});

} // namespace ztc
