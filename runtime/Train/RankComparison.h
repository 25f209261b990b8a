// What ranks need alike, held against rank 0's: the run would wait for ever, or mean something else, where it differs.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Ranks/ControlChannel.h"
#include "runtime/Train/EvaluationFiles.h"
#include "runtime/Train/Options.h"
#include "runtime/Train/RunHeader.h"
#include <cstdint>
#include <string>
#include <vector>

namespace ztc {

/// `shown` is what a message says instead of the value, where that tells a person more; it may differ from rank to
/// rank.
struct ComparedLine {
  const char *name;
  std::string value;
  std::string shown = {};
};
using ComparedLines = std::vector<ComparedLine>;

/// What every rank has to have been given alike. Of folders, which hosts may see at other places, whether they were.
ComparedLines linesOfOptions(const RunOptions &o, const std::string &plan);

/// What has to be alike once checkpoint and data are known.
ComparedLines linesOfData(const RunOptions &o, const RunFacts &facts, uint64_t accumulate, const DataSet *data,
                          const HeldOutData &heldOut);

/// All ranks: refuses those that differ from rank 0, with the first line that does. FailedPrecondition on every rank.
Status compareRanks(ControlChannel &control, const char *exchange, const ComparedLines &lines);

} // namespace ztc
