// Values that the gradient takes as they are.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace ztc::graph {

/// Op: its results are constants to the gradient. What they are computed from gets no cotangent through them (PyTorch's
/// Tensor.detach).
inline constexpr llvm::StringLiteral kDetached = "graph.detached";

} // namespace ztc::graph
