// What onnxruntime-genai's model builder names and fuses in its own way, as checkpoints have it.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// Gives initializers and nodes of a graph that the builder wrote the names of checkpoints, and splits a projection of
/// queries, keys and values into the three that `checkpoint` (names of its tensors) has. Other graphs stay as they are.
void restoreBuilderNames(Model &model, llvm::ArrayRef<std::string> checkpoint);

} // namespace ztc::importer
