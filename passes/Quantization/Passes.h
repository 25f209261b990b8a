// Weights in fewer bits: chosen before phase `backward`, stored so from phase `shard` on.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Quantization/Passes.h.inc"

} // namespace ztc
