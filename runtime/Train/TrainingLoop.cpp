#include "runtime/Train/TrainingLoop.h"
#include "runtime/Collective/Communicator.h"
#include "runtime/Ranks/Agreement.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>

namespace ztc {

namespace {

double steadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

void TrainingLoop::Pace::add(double seconds) {
  // The first step touches every page of the arena for the first time: it is no measure of the others.
  ++steps;
  stepSeconds = steps <= 2 ? seconds : 0.9 * stepSeconds + 0.1 * seconds;
}

/// What a rank has to tell after each step.
namespace {
struct StepRecord {
  float lossSum = 0;
  int32_t stopSignal = 0;
  uint64_t sentBytes = 0;
  uint64_t finite = 1;
};
struct EvalRecord {
  double lossSum = 0;
  uint64_t counted = 0;
};
} // namespace

TrainingLoop::TrainingLoop(const plan::Plan &plan, StepRunner &runner, RowSource &rows, EvaluationData evaluation,
                           LoopSettings settings, LoopHooks hooks, RankContext ranks, JsonLog &log, Progress &progress)
    : batchRows_(plan.model().batch()), seq_(plan.model().seq()), runner_(runner), rows_(rows), evaluation_(evaluation),
      settings_(std::move(settings)), hooks_(std::move(hooks)), ranks_(ranks), log_(log), progress_(progress),
      batch_(settings_.accumulate, batchRows_, seq_, {ranks.rank(), ranks.world()}), next_(batch_),
      evalBatch_(evaluation.source ? 1 : 0, batchRows_, seq_, {ranks.rank(), ranks.world()}) {}

Status TrainingLoop::prepareBatch(uint64_t row) {
  const Status filled = next_.fill(rows_, row);
  const uint64_t counted = next_.countedTargets();
  Bytes bytes(bytesOf(counted).begin(), bytesOf(counted).end());
  const Bytes status = encodeStatus(filled);
  bytes.insert(bytes.end(), status.begin(), status.end());
  isPrepared_ = true;
  return ranks_.control.post("counted targets", bytes);
}

StatusOr<uint64_t> TrainingLoop::takeBatch() {
  isPrepared_ = false;
  ZTC_ASSIGN_OR_RETURN(const std::vector<Bytes> all, ranks_.control.collect("counted targets"));
  uint64_t sum = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    uint64_t counted = 0;
    if (all[rank].size() <= sizeof counted)
      return internalError("a count of targets is no count");
    std::memcpy(&counted, all[rank].data(), sizeof counted);
    const Status filled = decodeStatus(std::span(all[rank]).subspan(sizeof counted));
    endedByRows_ = !filled.isOk();
    if (endedByRows_)
      return all.size() > 1 ? filled.withContext(fmt::format("rank {}", rank)) : filled;
    sum += counted;
  }
  std::swap(batch_, next_);
  return sum;
}

Status TrainingLoop::combine(float lossSum, uint64_t sentBytes, StepReport &report) {
  const StepRecord mine{lossSum, stopSignal(), sentBytes, report.finite};
  ZTC_ASSIGN_OR_RETURN(const std::vector<StepRecord> all, allGatherValue(ranks_.control, "step", mine));
  double sum = 0;
  for (const StepRecord &rank : all) {
    sum += double(rank.lossSum);
    report.sentBytes = std::max(report.sentBytes, rank.sentBytes);
    report.finite = report.finite && rank.finite;
    if (stopSignal_ == 0)
      stopSignal_ = rank.stopSignal;
  }
  report.loss = sum / double(report.targets);
  return Status::ok();
}

Status TrainingLoop::agreeOnStop() {
  ZTC_ASSIGN_OR_RETURN(const std::vector<int32_t> all,
                       allGatherValue(ranks_.control, "stop", static_cast<int32_t>(stopSignal())));
  for (int32_t signal : all)
    if (stopSignal_ == 0)
      stopSignal_ = signal;
  return Status::ok();
}

StatusOr<TrainingLoop::StepReport> TrainingLoop::runStep(const LoopPosition &position) {
  double start = steadySeconds();
  StepReport report;
  report.step = position.step;
  report.learningRate = settings_.schedule.rate(position.updates);
  report.lossScale = position.lossScale.scale;
  report.scaled = position.lossScale.isDynamic;
  ZTC_ASSIGN_OR_RETURN(report.targets, takeBatch());
  if (position.step + 1 < settings_.stopAt)
    ZTC_RETURN_IF_ERROR(prepareBatch(position.row + batch_.globalRows()));
  float lossSum = 0;
  uint64_t sent = 0;
  if (report.targets == 0) {
    report.skipped = true;
    report.gradientNorm = std::numeric_limits<float>::quiet_NaN();
    progress_.note(fmt::format("step {}: no target is counted, the step is skipped", position.step));
  } else {
    auto parameters = stepParameters(settings_.schedule, settings_.optimizer, position.updates, report.targets,
                                     report.lossScale, settings_.seed);
    std::function<Status()> dump;
    if (first_ && hooks_.dumpGradients)
      dump = [&] { return hooks_.dumpGradients(float(1 / report.lossScale)); };
    const uint64_t before = ranks_.communicator ? ranks_.communicator->traffic().sentBytes() : 0;
    ZTC_ASSIGN_OR_RETURN(const StepResult result, runner_.train(batch_, parameters, dump));
    sent = ranks_.communicator ? ranks_.communicator->traffic().sentBytes() - before : 0;
    lossSum = result.lossSum;
    report.gradientNorm = result.gradientNorm;
    report.finite = result.finite;
  }
  const bool ran = report.targets != 0;
  ZTC_RETURN_IF_ERROR(combine(lossSum, sent, report)); // 0/0 where nothing is counted: not a number
  report.skipped = report.skipped || !report.finite;
  first_ = first_ && (!ran || !report.finite);
  report.seconds = steadySeconds() - start;
  return report;
}

void TrainingLoop::report(const StepReport &report, bool last) {
  pace_.add(report.seconds);
  double now = steadySeconds();
  if (log_.isOpen()) {
    line_.begin().add("step", report.step).add("loss", report.loss).add("grad_norm", report.gradientNorm);
    line_.add("lr", report.learningRate).add("tokens", batch_.globalTokens()).add("targets", report.targets);
    line_.add("tokens_per_second", double(batch_.globalTokens()) / report.seconds).add("step_ms", report.seconds * 1e3);
    line_.add("sent_bytes", report.sentBytes).add("skipped", report.skipped);
    if (report.scaled)
      line_.add("loss_scale", report.lossScale);
    log_.write(line_.end());
  }
  if (!progress_.isDue(now, last))
    return;
  const double tokensPerSecond = double(batch_.globalTokens()) / pace_.stepSeconds;
  progress_.show({.step = report.step,
                  .steps = settings_.schedule.steps,
                  .loss = report.loss,
                  .gradientNorm = report.gradientNorm,
                  .learningRate = report.learningRate,
                  .tokensPerSecond = tokensPerSecond,
                  .secondsLeft = double(settings_.stopAt - report.step - 1) * pace_.stepSeconds,
                  .device = hooks_.describeDevice ? hooks_.describeDevice(tokensPerSecond) : ""},
                 now);
}

void TrainingLoop::rescale(const StepReport &step, LoopPosition &position) {
  position.lossScale.update(step.finite);
  if (!step.finite)
    progress_.note(fmt::format("step {}: gradients overflow at loss scale {}, the step is skipped; the next one has {}",
                               step.step, step.lossScale, position.lossScale.scale));
}

Status TrainingLoop::evaluate(const LoopPosition &position) {
  if (!evaluation_.source || evaluatedAt_ == position.step)
    return Status::ok();
  EvalRecord mine;
  // Every rank runs as many programs as the others, whatever its rows are: they may hold collectives.
  Status read;
  for (uint64_t row = 0; row < evaluation_.rows; row += evalBatch_.globalRows()) {
    if (Status filled = evalBatch_.fill(*evaluation_.source, row, evaluation_.rows - row); read.isOk())
      read = filled;
    ZTC_ASSIGN_OR_RETURN(const double loss, runner_.evaluate(evalBatch_));
    mine.lossSum += loss;
    mine.counted += evalBatch_.countedTargets();
  }
  const Status agreed = agree(&ranks_.control, "evaluation rows", read);
  endedByRows_ = !agreed.isOk() && ranks_.control.status().isOk();
  ZTC_RETURN_IF_ERROR(agreed.withContext("--eval-data"));
  ZTC_ASSIGN_OR_RETURN(const std::vector<EvalRecord> all, allGatherValue(ranks_.control, "evaluation", mine));
  double sum = 0;
  uint64_t counted = 0;
  for (const EvalRecord &rank : all) {
    sum += rank.lossSum;
    counted += rank.counted;
  }
  if (counted == 0)
    return invalidArgument("--eval-data: no target is counted");
  evalLoss_ = sum / double(counted);
  evaluatedAt_ = position.step;
  log_.write(line_.begin()
                 .add("event", "eval")
                 .add("step", position.step)
                 .add("eval_loss", *evalLoss_)
                 .add("targets", counted)
                 .end());
  progress_.note(fmt::format("after {} steps: held-out loss {:.4f}", position.step, *evalLoss_));
  return Status::ok();
}

StatusOr<LoopEnd> TrainingLoop::runSteps(LoopPosition &position) {
  auto dividesStep = [&](const std::optional<uint64_t> &every) { return every && position.step % *every == 0; };
  ZTC_RETURN_IF_ERROR(agreeOnStop());
  if (position.step < settings_.stopAt && stopSignal_ == 0)
    ZTC_RETURN_IF_ERROR(prepareBatch(position.row));
  while (position.step < settings_.stopAt) {
    if (stopSignal_ != 0)
      return LoopEnd::Signalled;
    ranks_.control.progress().enterPhase("training");
    ranks_.control.progress().enterStep(position.step);
    auto ran = runStep(position);
    if (!ran.isOk())
      return ran.status().withContext(fmt::format("step {}", position.step));
    const StepReport &step = *ran;
    if (hooks_.afterStep)
      hooks_.afterStep(step.seconds);
    report(step, position.step + 1 == settings_.stopAt || !step.finite);
    if (!step.finite && !step.scaled)
      return LoopEnd::Diverged;
    if (step.scaled && step.targets != 0)
      rescale(step, position);
    position.step += 1;
    position.updates += step.skipped ? 0 : 1;
    position.row += batch_.globalRows();
    if (position.lossScale.isExhausted())
      return LoopEnd::Overflowed;
    const bool evaluates = dividesStep(settings_.evalEvery), saves = dividesStep(settings_.saveEvery) && hooks_.save;
    if (evaluates)
      ZTC_RETURN_IF_ERROR(evaluate(position));
    if (saves)
      ZTC_RETURN_IF_ERROR(hooks_.save(position));
    if (evaluates || saves) // they take their time: a signal may have come meanwhile
      ZTC_RETURN_IF_ERROR(agreeOnStop());
  }
  ZTC_RETURN_IF_ERROR(evaluate(position));
  return LoopEnd::Finished;
}

StatusOr<LoopEnd> TrainingLoop::run(LoopPosition &position) {
  stopSignal_ = 0;
  StatusOr<LoopEnd> end = runSteps(position);
  if (end.isOk() && isPrepared_) { // the step that will not come: its exchange is not left behind
    isPrepared_ = false;
    ZTC_RETURN_IF_ERROR(ranks_.control.collect("counted targets").status());
  }
  return end;
}

} // namespace ztc
