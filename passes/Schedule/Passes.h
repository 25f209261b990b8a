// Phase `schedule`: the order of steps.
#pragma once
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Schedule/Passes.h.inc"

/// Options of phase `schedule`.
struct ScheduleOptions {};

/// Adds the passes of phase `schedule`, without its verifier.
void populateSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options = {});

} // namespace ztc
