#include "runtime/Train/Evaluation.h"
#include "runtime/Core/NamedRange.h"
#include "runtime/Ranks/Agreement.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace ztc {

double EvaluationResult::perplexity() const {
  return std::exp(loss);
}

std::string evaluationText(const EvaluationResult &result) {
  return fmt::format("held-out loss{}{} {:.4f} (perplexity {:.4g})", result.name.empty() ? "" : " of ", result.name,
                     result.loss, result.perplexity());
}

std::string_view evaluationJson(JsonObject &line, const EvaluationResult &result, uint64_t step) {
  line.begin().add("event", "eval").add("step", step);
  if (!result.name.empty())
    line.add("name", result.name);
  return line.add("eval_loss", result.loss).add("perplexity", result.perplexity()).add("targets", result.targets).end();
}

std::string evaluationTag(const std::string &name) {
  return name.empty() ? "eval/loss" : fmt::format("eval/{}/loss", name);
}

Evaluation::Evaluation(const plan::Plan &plan, StepRunner &runner, RankContext ranks, std::vector<EvaluationSet> sets)
    : runner_(runner), ranks_(ranks), sets_(std::move(sets)),
      batch_(sets_.empty() ? 0 : 1, plan.model().batch(), plan.model().seq(), {ranks.rank(), ranks.world()},
             plan.bindings().has_loss_weights()) {}

/// What a rank has to tell of a set.
namespace {
struct EvaluationRecord {
  double lossSum = 0;
  uint64_t counted = 0;
  LossWeightSum weights;
};
} // namespace

StatusOr<std::optional<EvaluationResult>> Evaluation::runSet(const EvaluationSet &set, const GoesOn &goesOn) {
  const NamedRange range("evaluation");
  const std::string option = set.name.empty() ? "--eval-data" : fmt::format("--eval-data {}", set.name);
  EvaluationRecord mine;
  // Every rank runs as many programs as the others, whatever its rows are: they may hold collectives.
  Status read;
  for (uint64_t row = 0; row < set.rows; row += batch_.globalRows()) {
    if (Status filled = batch_.fill(*set.source, row, set.rows - row); read.isOk())
      read = filled;
    ZTC_ASSIGN_OR_RETURN(const double loss, runner_.evaluate(batch_));
    mine.lossSum += loss;
    mine.counted += batch_.countedTargets();
    mine.weights.add(batch_.weightSum());
    if (!goesOn)
      continue;
    ZTC_ASSIGN_OR_RETURN(const bool goes, goesOn(set, std::min(set.rows, row + batch_.globalRows())));
    if (!goes)
      return std::optional<EvaluationResult>();
  }
  const Status agreed = agree(&ranks_.control, "evaluation rows", read);
  endedByRows_ = !agreed.isOk() && ranks_.control.status().isOk();
  ZTC_RETURN_IF_ERROR(agreed.withContext(option));
  ZTC_ASSIGN_OR_RETURN(const std::vector<EvaluationRecord> all, allGatherValue(ranks_.control, "evaluation", mine));
  EvaluationRecord sum;
  for (const EvaluationRecord &rank : all) {
    sum.lossSum += rank.lossSum;
    sum.counted += rank.counted;
    sum.weights.add(rank.weights);
  }
  if (sum.counted == 0)
    return invalidArgument(option + ": no target is counted");
  return std::optional(
      EvaluationResult{.name = set.name, .loss = sum.lossSum / sum.weights.value(), .targets = sum.counted});
}

StatusOr<std::vector<EvaluationResult>> Evaluation::run(const GoesOn &goesOn) {
  endedByRows_ = false;
  std::vector<EvaluationResult> results;
  for (const EvaluationSet &set : sets_) {
    ZTC_ASSIGN_OR_RETURN(std::optional<EvaluationResult> result, runSet(set, goesOn));
    if (!result)
      break;
    results.push_back(std::move(*result));
  }
  return StatusOr<std::vector<EvaluationResult>>(std::move(results));
}

} // namespace ztc
