// The names under which checkpoints keep the matrices of experts that transformers 5 stacks in one tensor.
#pragma once
#include "frontends/onnx/MatchWeights.h"

namespace ztc::importer {

/// How a stack (E, rows, columns) called "....experts.gate_up_proj" or "....experts.down_proj" follows from one matrix
/// per expert, by their names and shapes.
std::optional<WeightForm> stackedExperts(llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                                         const WeightMatcher &checkpoint);

} // namespace ztc::importer
