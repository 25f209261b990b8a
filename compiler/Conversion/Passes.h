// Phase `plan`: from graph and dist to plan.
#pragma once
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/Conversion/Passes.h.inc"

/// Adds the passes of phase `plan`, without its verifier.
void populatePlanPipeline(mlir::OpPassManager &pm);

} // namespace ztc
