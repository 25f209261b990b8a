// Phase `plan`, after the conversion: memory spaces below the device's.
#pragma once
#include "compiler/Analysis/OffloadChoice.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Offload/Passes.h.inc"

/// Adds the passes that place slots below and move them; they change nothing where the choice is empty.
void populateOffloadPipeline(mlir::OpPassManager &pm, const OffloadChoice &choice);

} // namespace ztc
