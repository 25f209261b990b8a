// Rewrites that stand in a file of patterns: no C++.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Pass/Pass.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Patterns/Passes.h.inc"

} // namespace ztc
