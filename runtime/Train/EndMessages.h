// What a run that cannot go on says to the person: where the weights are, and what to try.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Train/TrainingLoop.h"
#include <string>

namespace ztc {

/// Gradients that overflow fp16 at any loss scale. `saved`: where the weights are, or empty.
Status overflowEnd(const LoopPosition &position, const std::string &saved);

/// A gradient norm that is not finite.
struct Divergence {
  uint64_t step = 0;
  bool hasUpdated = false;    ///< this run has changed the weights before
  std::string lastGood = {};  ///< the last checkpoint of this run, or empty
  std::string resumed = {};   ///< what this run went on from, or empty
  std::string suspected = {}; ///< where the weights are that gave it, or empty
};
Status divergenceEnd(const Divergence &divergence);

} // namespace ztc
