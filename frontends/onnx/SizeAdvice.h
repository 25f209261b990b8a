// Why sizes of a graph do not fit, and what a user can do: exporters fix sizes that their inputs leave free.
#pragma once
#include "frontends/onnx/Evaluator.h"

namespace ztc::importer {

/// The size that the file gives the logits in a dimension (0: batch, 1: sequence) that is free in the tokens; -1 where
/// it gives none.
int64_t fixedByLogits(const Model &model, const Liveness &liveness, unsigned dimension);

/// A message of the import says that sizes do not fit.
bool isAboutSizes(llvm::StringRef message);

/// What to add to such a message; "" where nothing is known.
std::string reasonOfSizes(const Model &model, const Liveness &liveness, Binding binding);

} // namespace ztc::importer
