// Phase `fuse`: what becomes one kernel.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Fusion/Passes.h.inc"

/// Options of phase `fuse`.
struct FuseOptions {};

/// Adds the passes of phase `fuse`, without its verifier.
void populateFusePipeline(mlir::OpPassManager &pm, const FuseOptions &options = {});

} // namespace ztc
