// A run that evaluates and trains nothing: --eval-only.
#include "runtime/Core/SteadyClock.h"
#include "runtime/Ranks/Agreement.h"
#include "runtime/Train/RankComparison.h"
#include "runtime/Train/RunStages.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

namespace ztc {

StatusOr<bool> RunStages::goesOnEvaluating(const std::string &what, uint64_t done, uint64_t all) {
  const double now = steadySeconds();
  if (done < all && progress_.isDue(now, false))
    progress_.show(
        fmt::format("evaluating{}{}: {:.0f} %", what.empty() ? "" : " ", what, 100 * double(done) / double(all)), now);
  ZTC_ASSIGN_OR_RETURN(const std::vector<int32_t> signals,
                       allGatherValue(control_, "stop", static_cast<int32_t>(stopSignal())));
  return std::ranges::all_of(signals, [](int32_t signal) { return signal == 0; });
}

StatusOr<bool> RunStages::evaluateSets() {
  ZTC_ASSIGN_OR_RETURN(StepRunner runner, StepRunner::create(session_->plan(), session_->executor()));
  Evaluation evaluation(session_->plan(), runner, ranks_, evaluationSets());
  const auto goesOn = [this](const EvaluationSet &set, uint64_t done) {
    return goesOnEvaluating(set.name, done, set.rows);
  };
  ZTC_ASSIGN_OR_RETURN(const std::vector<EvaluationResult> results, evaluation.run(goesOn));
  progress_.finishLine();
  JsonObject line;
  for (const EvaluationResult &result : results) {
    progress_.note(fmt::format("{}, {} targets", evaluationText(result), result.targets));
    log_.write(evaluationJson(line, result, 0));
    if (events_.isOpen())
      events_.write(0, {{evaluationTag(result.name), result.loss}});
  }
  return results.size() == evaluation.sets().size();
}

namespace {

/// The choices of all questions, a row each.
class ChoiceRows final : public RowSource {
public:
  explicit ChoiceRows(std::span<const Question> questions) {
    for (const Question &question : questions)
      for (const Choice &choice : question.choices)
        choices_.push_back(&choice);
  }
  uint64_t rows() const { return choices_.size(); }
  Status read(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) override {
    fillChoice(*choices_[index], tokens, targets);
    return Status::ok();
  }

private:
  std::vector<const Choice *> choices_;
};

} // namespace

StatusOr<std::vector<double>> RunStages::sumsOfChoices() {
  ZTC_ASSIGN_OR_RETURN(StepRunner runner, StepRunner::create(session_->plan(), session_->executor()));
  ChoiceRows rows(questions_);
  const plan::Model &model = session_->plan().model();
  // A row of the batch is a choice; what is more than there are choices is padding. All ranks run as many batches.
  GlobalBatch batch(1, model.batch(), model.seq(), {}, session_->plan().bindings().has_loss_weights());
  std::vector<double> sums;
  uint64_t atOnce = std::min<uint64_t>(model.batch(), kMaxExchangeBytes / sizeof(float));
  while (sums.size() < rows.rows()) {
    const uint64_t first = std::min<uint64_t>(sums.size() + ranks_.rank() * atOnce, rows.rows());
    ZTC_RETURN_IF_ERROR(batch.fill(rows, first, std::min(atOnce, rows.rows() - first)));
    ZTC_ASSIGN_OR_RETURN(const std::span<const float> losses, runner.evaluateLosses(batch));
    if (losses.size() < atOnce) { // a plan that adds them up: a choice has the batch for itself
      atOnce = 1;
      continue;
    }
    ZTC_ASSIGN_OR_RETURN(const std::vector<Bytes> all,
                         control_.allGather("choices", std::as_bytes(losses.first(atOnce))));
    for (const Bytes &bytes : all) {
      if (bytes.size() != atOnce * sizeof(float))
        return internalError("losses of choices are of another size");
      for (size_t at = 0; at < bytes.size() && sums.size() < rows.rows(); at += sizeof(float)) {
        float loss = 0;
        std::memcpy(&loss, bytes.data() + at, sizeof loss);
        sums.push_back(-double(loss));
      }
    }
    ZTC_ASSIGN_OR_RETURN(const bool goesOn, goesOnEvaluating("choices", sums.size(), rows.rows()));
    if (!goesOn)
      break;
  }
  return StatusOr<std::vector<double>>(std::move(sums));
}

StatusOr<bool> RunStages::evaluateChoices() {
  if (questions_.empty())
    return true;
  ZTC_ASSIGN_OR_RETURN(const std::vector<double> sums, sumsOfChoices());
  progress_.finishLine();
  if (sums.size() < ChoiceRows(questions_).rows())
    return false;
  size_t next = 0;
  for (size_t i = 0; i < questions_.size(); ++i) {
    const size_t count = questions_[i].choices.size();
    const nlohmann::ordered_json line = {
        {"event", "choice"},
        {"question", i},
        {"answer", questions_[i].answer},
        {"log_probabilities", std::vector<double>(sums.begin() + int64_t(next), sums.begin() + int64_t(next + count))}};
    log_.write(line.dump());
    next += count;
  }
  if (std::ranges::any_of(sums, [](double sum) { return std::isnan(sum); }))
    return invalidArgument("--eval-choices: the model's logits are not numbers");
  const ChoiceScores scores = scoreChoices(questions_, sums);
  progress_.note(fmt::format("acc {:.4f} +- {:.4f}, acc_norm {:.4f} +- {:.4f}, of {} questions", scores.accuracy,
                             scores.accuracyError, scores.normalized, scores.normalizedError, scores.questions));
  JsonObject line;
  line.begin().add("event", "choices").add("file", options_.evalChoices).add("questions", scores.questions);
  line.add("acc", scores.accuracy).add("acc_stderr", scores.accuracyError);
  log_.write(line.add("acc_norm", scores.normalized).add("acc_norm_stderr", scores.normalizedError).end());
  if (events_.isOpen())
    events_.write(0, {{"eval/acc", scores.accuracy}, {"eval/acc_norm", scores.normalized}});
  return true;
}

StatusOr<RunEnd> RunStages::evaluate(LoadedPlan loaded, std::unique_ptr<Device> device) {
  const auto open = [&]() -> Status {
    control_.progress().enterPhase("reading data");
    ZTC_ASSIGN_OR_RETURN(tokenizer_, openTokenizer(options_));
    ZTC_RETURN_IF_ERROR(openHeldOut(loaded.plan));
    if (options_.evalChoices.empty())
      return Status::ok();
    const uint64_t vocabulary = loaded.plan.model().vocabulary();
    ZTC_RETURN_IF_ERROR(checkTextTokens(options_, vocabulary, "--eval-choices"));
    auto questions = readQuestions(options_.evalChoices, tokenizer_.get(), vocabulary);
    if (!questions.isOk())
      return questions.status().withContext("--eval-choices");
    questions_ = std::move(*questions);
    return Status::ok();
  };
  ZTC_RETURN_IF_ERROR(agree(&control_, "data opened", open()));
  ZTC_RETURN_IF_ERROR(
      compareRanks(control_, "the data", linesOfData(options_, facts_, accumulate_, nullptr, heldOut_)));
  ZTC_RETURN_IF_ERROR(prepareOutput(loaded.plan));
  ZTC_RETURN_IF_ERROR(openSession(std::move(loaded), std::move(device), {}, options_.tuneSeconds));
  ZTC_RETURN_IF_ERROR(loadModel());
  introduce();
  control_.progress().enterPhase("evaluating");
  ZTC_ASSIGN_OR_RETURN(bool complete, evaluateSets());
  if (complete) {
    ZTC_ASSIGN_OR_RETURN(complete, evaluateChoices());
  }
  return complete ? RunEnd::Done : RunEnd::Stopped;
}

} // namespace ztc
