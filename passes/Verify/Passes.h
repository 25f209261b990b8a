// Passes that check what a phase promises; they always run.
#pragma once
#include "mlir/Pass/Pass.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Verify/Passes.h.inc"

} // namespace ztc
