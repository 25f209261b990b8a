#include "runtime/Train/TrainingLoop.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <chrono>
#include <cmath>
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

TrainingLoop::TrainingLoop(const plan::Plan &plan, StepRunner &runner, RowSource &rows, EvaluationData evaluation,
                           LoopSettings settings, LoopHooks hooks, JsonLog &log, Progress &progress)
    : batchRows_(plan.model().batch()), seq_(plan.model().seq()), runner_(runner), rows_(rows), evaluation_(evaluation),
      settings_(std::move(settings)), hooks_(std::move(hooks)), log_(log), progress_(progress),
      batch_(settings_.accumulate, batchRows_, seq_), evalBatch_(evaluation.source ? 1 : 0, batchRows_, seq_) {}

StatusOr<TrainingLoop::StepReport> TrainingLoop::runStep(const LoopPosition &position) {
  double start = steadySeconds();
  StepReport report;
  report.step = position.step;
  report.learningRate = settings_.schedule.rate(position.updates);
  ZTC_RETURN_IF_ERROR(batch_.fill(rows_, position.row));
  if (batch_.countedTargets() == 0) {
    report.skipped = true;
    report.result.loss = std::numeric_limits<double>::quiet_NaN();
    report.result.gradientNorm = std::numeric_limits<float>::quiet_NaN();
    progress_.note(fmt::format("step {}: no target is counted, the step is skipped", position.step));
  } else {
    auto parameters = stepParameters(settings_.schedule, settings_.optimizer, position.updates, batch_.countedTargets(),
                                     settings_.lossScale);
    std::function<Status()> dump;
    if (first_)
      dump = hooks_.dumpGradients;
    ZTC_ASSIGN_OR_RETURN(report.result, runner_.train(batch_, parameters, dump));
    report.skipped = !report.result.finite;
    first_ = false;
  }
  report.seconds = steadySeconds() - start;
  return report;
}

void TrainingLoop::report(const StepReport &report, bool last) {
  pace_.add(report.seconds);
  double now = steadySeconds();
  if (log_.isOpen()) {
    line_.begin().add("step", report.step).add("loss", report.result.loss).add("grad_norm", report.result.gradientNorm);
    line_.add("lr", report.learningRate).add("tokens", batch_.tokenCount()).add("targets", batch_.countedTargets());
    line_.add("tokens_per_second", double(batch_.tokenCount()) / report.seconds).add("step_ms", report.seconds * 1e3);
    line_.add("sent_bytes", uint64_t(0)).add("skipped", report.skipped);
    log_.write(line_.end());
  }
  if (!progress_.isDue(now, last))
    return;
  progress_.show({.step = report.step,
                  .steps = settings_.schedule.steps,
                  .loss = report.result.loss,
                  .gradientNorm = report.result.gradientNorm,
                  .learningRate = report.learningRate,
                  .tokensPerSecond = double(batch_.tokenCount()) / pace_.stepSeconds,
                  .secondsLeft = double(settings_.stopAt - report.step - 1) * pace_.stepSeconds},
                 now);
}

Status TrainingLoop::evaluate(const LoopPosition &position) {
  if (!evaluation_.source || evaluatedAt_ == position.step)
    return Status::ok();
  double sum = 0;
  uint64_t counted = 0;
  for (uint64_t row = 0; row < evaluation_.rows; row += batchRows_) {
    ZTC_RETURN_IF_ERROR(evalBatch_.fill(*evaluation_.source, row, evaluation_.rows - row));
    if (evalBatch_.countedTargets() == 0)
      continue;
    ZTC_ASSIGN_OR_RETURN(double loss, runner_.evaluate(evalBatch_));
    sum += loss;
    counted += evalBatch_.countedTargets();
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

StatusOr<LoopEnd> TrainingLoop::run(LoopPosition &position) {
  auto dividesStep = [&](const std::optional<uint64_t> &every) { return every && position.step % *every == 0; };
  while (position.step < settings_.stopAt) {
    if (stopSignal() != 0)
      return LoopEnd::Signalled;
    auto ran = runStep(position);
    if (!ran.isOk())
      return ran.status().withContext(fmt::format("step {}", position.step));
    const StepReport &step = *ran;
    if (hooks_.afterStep)
      hooks_.afterStep(step.seconds);
    report(step, position.step + 1 == settings_.stopAt || (step.skipped && !step.result.finite));
    if (!step.result.finite)
      return LoopEnd::Diverged;
    position.step += 1;
    position.updates += step.skipped ? 0 : 1;
    position.row += batch_.rows();
    if (dividesStep(settings_.evalEvery))
      ZTC_RETURN_IF_ERROR(evaluate(position));
    if (dividesStep(settings_.saveEvery) && hooks_.save)
      ZTC_RETURN_IF_ERROR(hooks_.save(position));
  }
  ZTC_RETURN_IF_ERROR(evaluate(position));
  return LoopEnd::Finished;
}

} // namespace ztc
