// Which initializers are parameters: masks, tables and other constants are float initializers too.
#pragma once
#include "frontends/onnx/Evaluator.h"
#include "frontends/onnx/Names.h"

namespace ztc::importer {

struct FoundParameters {
  llvm::StringSet<> names; ///< of initializers
  /// Other initializers of floats that are combined with what depends on tokens: constants, as far as anything says.
  std::vector<const Initializer *> constants;
  /// Of no such kind, but data meet what is computed from them and from positions: parameters, or buffers.
  std::vector<const Initializer *> uncertain;
};

/// Decides by the exporter's signature where there is one, by names, and by how tokens' descendants use the
/// initializer. What these leave open is a parameter where `weights` has it; `names` is then told which.
FoundParameters findParameters(const Model &model, Names &names, const Liveness &fromTokens,
                               const std::string &weights);

} // namespace ztc::importer
