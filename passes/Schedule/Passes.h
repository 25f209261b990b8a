// Phase `schedule`: the order of steps, and collectives beside the computation.
#pragma once
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Schedule/Passes.h.inc"

/// Options of phase `schedule`.
struct ScheduleOptions {
  unsigned prefetch = 1; ///< gathers that run ahead of the one that is used
};

/// Adds the passes of phase `schedule`, without its verifier.
void populateSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options = {});

} // namespace ztc
