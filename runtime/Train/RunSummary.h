// What a run says of itself at its end: how much it did, how fast, and where the time went.
#pragma once
#include "runtime/Device/LowerMemory.h"
#include "runtime/Train/TrainingLoop.h"
#include <cstdint>
#include <optional>
#include <string>

namespace ztc {

struct RunSummary {
  LoopTotals totals;
  size_t watchedSet = 0; ///< of totals.bestEvaluations: the one that decides
  double seconds = 0;    ///< from the start of the run to its end
  double loadingSeconds = 0;
  double exportSeconds = 0;
  uint64_t peakBytes = 0;          ///< per rank: what was allocated
  uint64_t restarts = 0;           ///< after lost ranks
  std::optional<MovedBytes> moved; ///< of this rank, where the plan keeps slots outside the device
};

/// Two lines for a person.
std::string summaryText(const RunSummary &summary);
/// The log's last object, "event": "summary".
std::string summaryJson(const RunSummary &summary);

} // namespace ztc
