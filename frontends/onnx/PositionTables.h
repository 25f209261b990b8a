// Learned positions that are no module's weight, but a parameter of their own: `self.pos_emb = nn.Parameter(...)`.
#pragma once
#include "frontends/onnx/Names.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {

/// Adds to `parameters` each initializer with a name of its own whose rows are added to those that the tokens look up.
/// What dynamo's signature calls a buffer is not one, nor are rows of sines and cosines.
void addPositionTables(const Model &model, const Names &names, llvm::StringSet<> &parameters);

} // namespace ztc::importer
