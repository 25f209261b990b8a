// Low-rank adapters: what phase `backward` begins with where a model has some.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Adapters/Passes.h.inc"

} // namespace ztc
