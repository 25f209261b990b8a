// Phase `backward`.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Support/Formats.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <functional>
#include <string>
#include <vector>

namespace ztc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Autodiff/Passes.h.inc"

/// What a user can say about the phase `backward`.
struct AutodiffOptions {
  std::string freeze;  ///< parameters (POSIX extended regular expression) that get no gradient; empty: none
  std::string noDecay; ///< parameters without weight decay, beside those of fewer than two dimensions; empty: none
  std::vector<std::string> rates;              ///< "REGEX=FACTOR": parameters with a learning rate of their own
  std::string optimizer = "adamw";             ///< a name of compiler/Dialect/Graph/Optimizers.h
  AdjustLr adjustLr = AdjustLr::MatchRmsAdamw; ///< of muon
  bool updateInBackward = false;               ///< each bucket is updated as soon as its gradient is complete
  bool decode = false;                         ///< a program that generates text with a key/value cache
  bool pack = false;                           ///< rows hold several documents
  bool lossWeights = false;                    ///< each target's loss is multiplied by a number of the data
  std::function<void(mlir::OpPassManager &)> afterLoss =
      {}; ///< adds passes that see @eval with its loss, not yet @microstep
};

/// @forward => @microstep, @update, @eval, @generate, @decode where it is asked for; cleaned up (canonical, no common
/// or dead subexpressions).
void populateAutodiffPipeline(mlir::OpPassManager &pm, const AutodiffOptions &options = {});

} // namespace ztc
