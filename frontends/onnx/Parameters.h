// Which initializers are parameters: masks, tables and other constants are float initializers too.
#pragma once
#include "frontends/onnx/Evaluator.h"
#include "frontends/onnx/Names.h"

namespace ztc::importer {

/// Decides by the exporter's signature where there is one, by names, and by how tokens' descendants use the
/// initializer.
llvm::StringSet<> findParameters(const Model &model, const Names &names, const Liveness &fromTokens);

} // namespace ztc::importer
