// Learned positions that are not a module's weight, but a parameter of their own: `self.pos_emb = nn.Parameter(...)`.
#pragma once
#include "frontends/onnx/Names.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {

/// Adds to `parameters` each initializer with a name of its own whose rows are added to those that the tokens look up.
/// What dynamo's signature calls a buffer is not one, nor are rows of sines and cosines.
void addPositionTables(const Model &model, const Names &names, llvm::StringSet<> &parameters);

/// Rows of sines and cosines, which nobody trains: the squares of all pairs, of neighbours or of halves, have one sum.
bool holdsAngles(const Model &model, const Initializer &initializer);

/// The sum of rows that tokens look up, up to what rescales and casts them.
bool isLookedUp(const Model &model, llvm::StringRef value);

/// The exporter kept the name that the tensor had in the module.
bool hasOwnName(const Initializer &initializer);

} // namespace ztc::importer
