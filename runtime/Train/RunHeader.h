// How a run introduces itself, to a person and to the log.
#pragma once
#include "runtime/Core/Packing.h"
#include "runtime/Train/Options.h"
#include "runtime/Train/Session.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ztc {

/// What the header says besides plan and machine.
struct RunFacts {
  std::string run;                       ///< id
  uint64_t steps = 0;                    ///< N
  uint64_t firstStep = 0;                ///< steps done before this run: resumed
  uint64_t rows = 0;                     ///< of --data; 0 in a trial
  std::optional<PackingSummary> packing; ///< of --data, where rows hold several documents
  uint64_t seed = 0;
  bool shuffle = false;
  std::optional<double> lossScale;  ///< fp16: of the first step
  std::string weights;              ///< where they came from, in words
  std::vector<std::string> differs; ///< from the run that is resumed: what its bits depended on
};

/// As --schedule takes it.
const char *scheduleName(ScheduleKind kind);

/// What decides how a run of so many steps learns, by option.
std::map<std::string, std::string> learningSettings(const RunOptions &options, uint64_t steps);

/// Name and version of what moves bytes between ranks; "none" at one rank.
std::string communicatorText(const Session &session);

/// What a progress line says about the device: the share of its peak that the model's own arithmetic takes (MFU,
/// without what is recomputed), clock, power and temperature, as far as they are known. `tokensPerSecond`: of all ranks
/// together.
std::string deviceText(const Session &session, double tokensPerSecond);

/// Some lines for a person: model, memory by class, device, data.
std::string headerText(const RunOptions &options, const Session &session, const RunFacts &facts);

/// Text of an export's ztc_run.json: which run the model is of, after how many steps.
std::string runRecord(const Session &session, const std::string &run, uint64_t steps);

/// The log's first object: everything that the bits of a run depend on, and its memory.
std::string headerJson(const RunOptions &options, const Session &session, const RunFacts &facts);

} // namespace ztc
