// Passes that check what a phase promises; they always run.
#pragma once
#include "compiler/Dialect/Kernel/KernelLevel.h"
#include "mlir/Pass/Pass.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Verify/Passes.h.inc"

} // namespace ztc
