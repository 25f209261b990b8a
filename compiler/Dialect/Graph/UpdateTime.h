// When the optimizer updates a bucket: after the step's last micro-step, or as soon as its gradient is complete.
#pragma once
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace ztc::graph {

/// Module attribute, a unit, of ztc-build-update: a step is one micro-step, in whose backward part each bucket is
/// updated (ztc-update-in-backward). Until then `@update` clips each bucket by its own norm.
inline constexpr llvm::StringLiteral kUpdateInBackward = "graph.update_in_backward";

inline bool updatesInBackward(mlir::ModuleOp module) {
  return module->hasAttr(kUpdateInBackward);
}

} // namespace ztc::graph
