// Held-out data: the mean loss of all rows of each set.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Ranks/RankContext.h"
#include "runtime/Train/GlobalBatch.h"
#include "runtime/Train/JsonLog.h"
#include "runtime/Train/RowSource.h"
#include "runtime/Train/StepRunner.h"
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// Rows that are evaluated together.
struct EvaluationSet {
  std::string name = {}; ///< as --eval-data NAME=FILE gives it; empty: none was given
  RowSource *source = nullptr;
  uint64_t rows = 0;
};

/// What one set gave.
struct EvaluationResult {
  std::string name;
  double loss = 0;      ///< mean over the counted targets, by their weights where they have some
  uint64_t targets = 0; ///< that were counted
  double perplexity() const;
};

/// "held-out loss of wiki 2.1461 (perplexity 8.55)".
std::string evaluationText(const EvaluationResult &result);
/// The log's object of it, after `step` steps: "event": "eval". Valid as long as that of `line` is.
std::string_view evaluationJson(JsonObject &line, const EvaluationResult &result, uint64_t step);
/// "eval/loss", or "eval/wiki/loss".
std::string evaluationTag(const std::string &name);

/// Runs the sets of a run. All ranks call run() alike; it allocates nothing of size.
class Evaluation {
public:
  /// Called on each rank after each batch; false, on all ranks alike, ends the evaluation.
  using GoesOn = std::function<StatusOr<bool>(const EvaluationSet &set, uint64_t doneRows)>;

  /// References and sources must outlive the object.
  Evaluation(const plan::Plan &plan, StepRunner &runner, RankContext ranks, std::vector<EvaluationSet> sets);

  const std::vector<EvaluationSet> &sets() const { return sets_; }
  bool isEmpty() const { return sets_.empty(); }
  /// Of every set, in order; of fewer where `goesOn` ended it. InvalidArgument where rows cannot be read or no target
  /// counts.
  StatusOr<std::vector<EvaluationResult>> run(const GoesOn &goesOn = nullptr);
  /// True where run() failed at rows that cannot be read: on all ranks alike.
  bool endedByRows() const { return endedByRows_; }

private:
  /// Nothing where `goesOn` ended it.
  StatusOr<std::optional<EvaluationResult>> runSet(const EvaluationSet &set, const GoesOn &goesOn);
  StepRunner &runner_;
  RankContext ranks_;
  std::vector<EvaluationSet> sets_;
  GlobalBatch batch_;
  bool endedByRows_ = false;
};

} // namespace ztc
