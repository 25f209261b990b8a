#include "runtime/Train/TrainingLoop.h"
#include "runtime/Collective/Communicator.h"
#include "runtime/Core/NamedRange.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Format/UpdateTime.h"
#include "runtime/Ranks/Agreement.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <utility>

namespace ztc {

void TrainingLoop::Pace::add(double seconds) {
  // The first step touches every page of the arena for the first time: it is not a measure of the others.
  ++steps;
  stepSeconds = steps <= 2 ? seconds : 0.9 * stepSeconds + 0.1 * seconds;
}

/// What a rank has to tell after each step.
namespace {
struct StepRecord {
  float lossSum = 0;
  int32_t stopSignal = 0;
  uint64_t sentBytes = 0;
  uint32_t finite = 1;
  uint32_t isSaved = 0;
  uint32_t isTimeToSave = 0; ///< of rank 0
};
} // namespace

TrainingLoop::TrainingLoop(const plan::Plan &plan, StepRunner &runner, RowSource &rows,
                           std::vector<EvaluationSet> evaluation, LoopSettings settings, LoopHooks hooks,
                           RankContext ranks, JsonLog &log, Progress &progress)
    : batchRows_(plan.model().batch()), seq_(plan.model().seq()), runner_(runner), rows_(rows), settings_(settings),
      hooks_(std::move(hooks)), ranks_(ranks), log_(log), progress_(progress),
      batch_(settings_.accumulate, batchRows_, seq_, {ranks.rank(), ranks.world()}, plan.bindings().has_loss_weights()),
      next_(batch_), evaluation_(plan, runner, ranks, std::move(evaluation)),
      updatesInBackward_(ztc::updatesInBackward(plan)) {}

Status TrainingLoop::prepareBatch(uint64_t row) {
  const Status filled = next_.fill(rows_, row);
  const BatchRecord mine{next_.countedTargets(), next_.unpaddedTokens(), next_.weightSum()};
  Bytes bytes(bytesOf(mine).begin(), bytesOf(mine).end());
  const Bytes status = encodeStatus(filled);
  bytes.insert(bytes.end(), status.begin(), status.end());
  isPrepared_ = true;
  return ranks_.control.post("counted targets", bytes);
}

StatusOr<TrainingLoop::BatchRecord> TrainingLoop::takeBatch() {
  isPrepared_ = false;
  ZTC_ASSIGN_OR_RETURN(const std::vector<Bytes> all, ranks_.control.collect("counted targets"));
  BatchRecord sum;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    BatchRecord one;
    if (all[rank].size() <= sizeof one)
      return internalError("a count of targets is not a count");
    std::memcpy(&one, all[rank].data(), sizeof one);
    const Status filled = decodeStatus(std::span(all[rank]).subspan(sizeof one));
    endedByRows_ = !filled.isOk();
    if (endedByRows_)
      return all.size() > 1 ? filled.withContext(fmt::format("rank {}", rank)) : filled;
    sum.targets += one.targets;
    sum.unpadded += one.unpadded;
    sum.weights.add(one.weights);
  }
  std::swap(batch_, next_);
  return sum;
}

uint64_t TrainingLoop::sentBytes() const {
  return ranks_.communicator ? ranks_.communicator->traffic().sentBytes() : 0;
}

Status TrainingLoop::combine(float lossSum, StepReport &report) {
  const bool isTimeToSave = settings_.savePeriodSeconds && steadySeconds() - lastSaved_ >= *settings_.savePeriodSeconds;
  const StepRecord mine{lossSum,     stopSignal(), report.sentBytes, report.finite, hooks_.isSaved && hooks_.isSaved(),
                        isTimeToSave};
  ZTC_ASSIGN_OR_RETURN(const std::vector<StepRecord> all, allGatherValue(ranks_.control, "step", mine));
  double sum = 0;
  report.savesNow = all.front().isTimeToSave;
  report.endsSave = true;
  for (const StepRecord &rank : all) {
    sum += double(rank.lossSum);
    report.endsSave = report.endsSave && rank.isSaved;
    report.sentBytes = std::max(report.sentBytes, rank.sentBytes);
    report.finite = report.finite && rank.finite;
    if (stopSignal_ == 0)
      stopSignal_ = rank.stopSignal;
  }
  report.loss = sum / report.weights;
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

Status TrainingLoop::agreeOnOverlap() {
  ZTC_ASSIGN_OR_RETURN(const std::vector<uint8_t> all,
                       allGatherValue(ranks_.control, "going ahead", uint8_t(runner_.isAsynchronous())));
  overlaps_ = std::ranges::all_of(all, [](uint8_t is) { return is != 0; });
  return Status::ok();
}

StatusOr<TrainingLoop::StepInFlight> TrainingLoop::beginStep(const LoopPosition &start) {
  StepInFlight step{.start = start,
                    .report = {.step = start.step},
                    .began = steadySeconds(),
                    .range = beginRange("step", start.step)};
  ranks_.control.progress().enterPhase("training");
  ranks_.control.progress().enterStep(start.step);
  ZTC_ASSIGN_OR_RETURN(const BatchRecord counted, takeBatch());
  step.report.targets = counted.targets;
  step.report.unpadded = counted.unpadded;
  step.report.weights = counted.weights.value();
  if (start.step + 1 < settings_.stopAt)
    ZTC_RETURN_IF_ERROR(prepareBatch(start.row + batch_.globalRows()));
  ZTC_RETURN_IF_ERROR(runMicrosteps(step));
  return StatusOr<StepInFlight>(std::move(step));
}

Status TrainingLoop::runMicrosteps(StepInFlight &step) {
  StepReport &report = step.report;
  report.learningRate = settings_.schedule.rate(step.start.updates);
  report.lossScale = step.start.lossScale.scale;
  report.scaled = step.start.lossScale.isDynamic;
  report.skipped = report.targets == 0;
  report.normLimit = step.start.guard.limit();
  if (report.skipped)
    return Status::ok();
  if (updatesInBackward_ && hooks_.beforeUpdate)
    hooks_.beforeUpdate();
  const StepParameterArray parameters =
      stepParameters(settings_.schedule, settings_.optimizer, step.start.updates, report.weights, report.lossScale,
                     settings_.seed, report.normLimit, step.start.gradientNorm);
  if (runner_.needsFp8Maxima())
    ZTC_RETURN_IF_ERROR(runner_.findFp8Maxima(batch_, parameters));
  const uint64_t before = sentBytes();
  ZTC_RETURN_IF_ERROR(runner_.begin(batch_, parameters));
  report.sentBytes = sentBytes() - before;
  return Status::ok();
}

Status TrainingLoop::updateStep(StepInFlight &step, const LoopPosition &position) {
  ranks_.control.progress().enterPhase("training");
  ranks_.control.progress().enterStep(position.step);
  // The step before overflowed in fp16, so this one has another scale, or it was dropped as a spike. Nothing was
  // updated with its gradients.
  const bool isAsExpected = step.start.updates == position.updates && step.start.lossScale == position.lossScale &&
                            step.report.normLimit == position.guard.limit();
  step.start = position;
  if (!isAsExpected)
    ZTC_RETURN_IF_ERROR(runMicrosteps(step));
  if (step.report.skipped)
    return Status::ok();
  if (first_ && hooks_.dumpGradients)
    ZTC_RETURN_IF_ERROR(hooks_.dumpGradients(float(1 / step.report.lossScale)));
  if (!updatesInBackward_ && hooks_.beforeUpdate)
    hooks_.beforeUpdate();
  const uint64_t before = sentBytes();
  ZTC_RETURN_IF_ERROR(runner_.update());
  step.report.sentBytes += sentBytes() - before;
  return Status::ok();
}

Status TrainingLoop::awaitStep(StepInFlight &step) {
  StepReport &report = step.report;
  ranks_.control.progress().enterStep(report.step);
  const bool ran = !report.skipped;
  StepResult result{.gradientNorm = std::numeric_limits<float>::quiet_NaN()};
  if (ran) {
    ZTC_ASSIGN_OR_RETURN(result, runner_.result());
    if (result.updated && double(result.gradientNorm) > 1.001 * report.normLimit)
      return failedPrecondition("--skip-spikes: the plan was compiled by an older ztc and updates whatever the norm "
                                "is: compile it again");
  } else {
    progress_.note(fmt::format("step {}: no target is counted, the step is skipped", report.step));
  }
  report.gradientNorm = result.gradientNorm;
  report.finite = result.finite;
  ZTC_RETURN_IF_ERROR(combine(result.lossSum, report)); // 0/0 where nothing is counted: not a number
  report.isSpike = ran && report.finite && !result.updated;
  report.skipped = !ran || !report.finite || report.isSpike;
  first_ = first_ && report.skipped;
  const double now = steadySeconds();
  // From loss to loss, where the micro-steps began before the last loss was there.
  report.seconds = now - std::max(step.began, lastJudged_);
  lastJudged_ = now;
  return Status::ok();
}

void TrainingLoop::log(const StepReport &report) {
  const double tokensPerSecond = double(batch_.globalTokens()) / report.seconds;
  if (log_.isOpen()) {
    line_.begin().add("step", report.step).add("loss", report.loss).add("grad_norm", report.gradientNorm);
    line_.add("lr", report.learningRate).add("tokens", batch_.globalTokens()).add("targets", report.targets);
    if (report.unpadded < batch_.globalTokens())
      line_.add("tokens_without_padding", report.unpadded);
    line_.add("tokens_per_second", tokensPerSecond).add("step_ms", report.seconds * 1e3);
    line_.add("sent_bytes", report.sentBytes).add("skipped", report.skipped);
    if (report.scaled)
      line_.add("loss_scale", report.lossScale);
    if (report.isSpike)
      line_.add("norm_limit", report.normLimit);
    log_.write(line_.end());
  }
  if (!hooks_.addScalars)
    return;
  hooks_.addScalars(report.step, {{"train/loss", report.loss},
                                  {"train/gradient_norm", report.gradientNorm},
                                  {"train/learning_rate", report.learningRate},
                                  {"speed/tokens_per_second", tokensPerSecond},
                                  {"speed/step_milliseconds", report.seconds * 1e3}});
  if (report.scaled)
    hooks_.addScalars(report.step, {{"train/loss_scale", report.lossScale}});
}

void TrainingLoop::report(const StepReport &report, bool last) {
  pace_.add(report.seconds);
  const uint64_t stepTokens = batch_.globalTokens();
  totals_.steps += 1;
  totals_.tokens += stepTokens;
  totals_.unpadded += report.unpadded;
  totals_.stepSeconds += report.seconds;
  if (last || report.skipped || (report.step + 1) % settings_.logEvery == 0)
    log(report);
  const double now = steadySeconds();
  if (!progress_.isDue(now, last))
    return;
  const double tokensPerSecond = double(stepTokens) / pace_.stepSeconds;
  const double rows = double((report.step + 1) * batch_.globalRows());
  progress_.show({.step = report.step,
                  .steps = settings_.schedule.steps,
                  .loss = report.loss,
                  .gradientNorm = report.gradientNorm,
                  .learningRate = report.learningRate,
                  .hasTargets = report.targets > 0,
                  .tokensPerSecond = tokensPerSecond,
                  .epoch = settings_.rowsPerEpoch ? rows / double(settings_.rowsPerEpoch) : 0,
                  .tokens = settings_.rowsPerEpoch ? (report.step + 1) * stepTokens : 0,
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

void TrainingLoop::dropSpike(const StepReport &step, LoopPosition &position) {
  totals_.spikes += 1;
  const bool isNewLevel = position.guard.drop();
  progress_.note(fmt::format("step {}: the gradient norm {:.4g} is above {:.4g}, {} deviations over the mean of the "
                             "steps before it: the update is dropped{}",
                             step.step, step.gradientNorm, step.normLimit, position.guard.sigma,
                             isNewLevel ? fmt::format("; {} in a row are not a spike: the usual level is learned anew",
                                                      SpikeGuard::kMostInARow)
                                        : ""));
}

Status TrainingLoop::evaluate(LoopPosition &position) {
  if (evaluation_.isEmpty() || evaluatedAt_ == position.step)
    return Status::ok();
  const double began = steadySeconds();
  const StatusOr<std::vector<EvaluationResult>> results = evaluation_.run();
  endedByRows_ = evaluation_.endedByRows();
  ZTC_RETURN_IF_ERROR(results.status());
  totals_.evalSeconds += steadySeconds() - began;
  totals_.bestEvaluations.resize(results->size());
  evaluatedAt_ = position.step;
  for (size_t i = 0; i < results->size(); ++i) {
    const EvaluationResult &result = (*results)[i];
    totals_.bestEvaluations[i].add(result.name, result.loss, position.step);
    if (hooks_.addScalars)
      hooks_.addScalars(position.step, {{evaluationTag(result.name), result.loss}});
    log_.write(evaluationJson(line_, result, position.step));
    progress_.note(fmt::format("after {} steps: {}", position.step, evaluationText(result)));
    if (i != settings_.watchedSet)
      continue;
    position.evalLoss = evalLoss_ = result.loss;
    position.bestEvaluation.add(result.name, result.loss, position.step);
  }
  return Status::ok();
}

Status TrainingLoop::sample(const LoopPosition &position) {
  if (!hooks_.sample || !settings_.sampleEvery || sampledAt_ == position.step)
    return Status::ok();
  sampledAt_ = position.step;
  const double began = steadySeconds();
  ZTC_RETURN_IF_ERROR(hooks_.sample(position));
  totals_.sampleSeconds += steadySeconds() - began;
  return Status::ok();
}

bool TrainingLoop::losesPatience(const LoopPosition &position) {
  const BestEvaluation &best = position.bestEvaluation;
  if (!settings_.patience || best.since < *settings_.patience || !position.evalLoss)
    return false;
  totals_.lostPatience = true;
  const std::string found = best.loss ? fmt::format("{:.4f} after {} steps is the best", *best.loss, best.step)
                                      : std::string("none was a number");
  progress_.note(fmt::format("after {} steps: the held-out loss{}{} has not improved in {} evaluation{} ({}): the run "
                             "ends here, as --patience={} asks",
                             position.step, best.name.empty() ? "" : " of ", best.name, best.since,
                             best.since == 1 ? "" : "s", found, *settings_.patience));
  return true;
}

bool TrainingLoop::isBest(const LoopPosition &position) {
  const std::optional<double> loss = position.evalLoss;
  if (!loss || (settings_.bestEvalLoss && *loss >= *settings_.bestEvalLoss))
    return false;
  settings_.bestEvalLoss = loss;
  return true;
}

void TrainingLoop::advance(LoopPosition &position, bool updated) const {
  position.evalLoss.reset();
  position.step += 1;
  position.updates += updated ? 1 : 0;
  position.row += batch_.globalRows();
}

LoopPosition TrainingLoop::expectedAfter(const StepInFlight &step) const {
  LoopPosition position = step.start;
  if (!step.report.skipped && position.lossScale.isDynamic)
    position.lossScale.update(true);
  if (!step.report.skipped)
    position.guard.add(0); // its norm is not known yet, and not asked for by the next step
  advance(position, !step.report.skipped);
  return position;
}

bool TrainingLoop::mayOverlap(const StepInFlight &step) const {
  if (updatesInBackward_) // the next micro-step would change weights before this one is judged
    return false;
  // Evaluations and samples take the memory that gradients are in.
  const uint64_t done = step.start.step + 1;
  const bool evaluates = !evaluation_.isEmpty() && isDue(settings_.evalEvery, done);
  return overlaps_ && !evaluates && !isDue(settings_.sampleEvery, done);
}

StatusOr<std::optional<LoopEnd>> TrainingLoop::finishStep(StepInFlight step, LoopPosition &position) {
  const Status there = awaitStep(step);
  endRange(step.range);
  if (!there.isOk())
    return there.withContext(fmt::format("step {}", step.report.step));
  const StepReport &judged = step.report;
  if (hooks_.afterStep)
    hooks_.afterStep(judged.seconds);
  report(judged, position.step + 1 == settings_.stopAt || !judged.finite);
  if (!judged.finite && !judged.scaled)
    return std::optional(LoopEnd::Diverged);
  if (judged.scaled && judged.targets != 0)
    rescale(judged, position);
  if (judged.isSpike)
    dropSpike(judged, position);
  else if (!judged.skipped)
    position.guard.add(judged.gradientNorm);
  if (!judged.skipped)
    position.gradientNorm = judged.gradientNorm;
  advance(position, !judged.skipped);
  if (position.lossScale.isExhausted())
    return std::optional(LoopEnd::Overflowed);
  if (judged.endsSave && hooks_.endSave)
    ZTC_RETURN_IF_ERROR(hooks_.endSave());
  // The last one goes before a checkpoint of the same step, which says what it found.
  const bool evaluates = isDue(settings_.evalEvery, position.step) || position.step == settings_.stopAt;
  if (evaluates)
    ZTC_RETURN_IF_ERROR(evaluate(position));
  const bool samples = isDue(settings_.sampleEvery, position.step);
  if (samples)
    ZTC_RETURN_IF_ERROR(sample(position));
  const bool isNewBest = settings_.savesBest && isBest(position);
  const bool saves = hooks_.save && (isDue(settings_.saveEvery, position.step) || judged.savesNow || isNewBest);
  if (saves) {
    lastSaved_ = steadySeconds();
    ZTC_RETURN_IF_ERROR(hooks_.save(position));
    totals_.saveSeconds += steadySeconds() - lastSaved_;
  }
  if (evaluates || samples || saves) // they take their time: a signal may have come meanwhile
    ZTC_RETURN_IF_ERROR(agreeOnStop());
  if (stopSignal_ != 0 && position.step < settings_.stopAt)
    return std::optional(LoopEnd::Signalled);
  if (evaluates && position.step < settings_.stopAt && losesPatience(position))
    return std::optional(LoopEnd::Finished);
  return std::optional<LoopEnd>();
}

StatusOr<LoopEnd> TrainingLoop::runSteps(LoopPosition &position) {
  ZTC_RETURN_IF_ERROR(agreeOnStop());
  ZTC_RETURN_IF_ERROR(agreeOnOverlap());
  if (position.step < settings_.stopAt && stopSignal_ != 0)
    return LoopEnd::Signalled;
  if (position.step < settings_.stopAt)
    ZTC_RETURN_IF_ERROR(prepareBatch(position.row));
  std::optional<StepInFlight> last; // updated, and not judged yet
  while (last || position.step < settings_.stopAt) {
    const LoopPosition start = last ? expectedAfter(*last) : position;
    const bool begins = start.step < settings_.stopAt && (!last || mayOverlap(*last));
    StatusOr<StepInFlight> next = begins ? beginStep(start) : StatusOr<StepInFlight>(StepInFlight());
    if (last) {
      const bool endsByRows = std::exchange(endedByRows_, false); // only if the step before was well
      ZTC_ASSIGN_OR_RETURN(const std::optional<LoopEnd> end, finishStep(*std::exchange(last, std::nullopt), position));
      if (end)
        return *end;
      endedByRows_ = endsByRows;
    }
    if (!begins)
      continue;
    const auto inStep = [&](const Status &status) { return status.withContext(fmt::format("step {}", position.step)); };
    ZTC_RETURN_IF_ERROR(inStep(next.status()));
    ZTC_RETURN_IF_ERROR(inStep(updateStep(*next, position)));
    last = std::move(*next);
  }
  ZTC_RETURN_IF_ERROR(evaluate(position));
  ZTC_RETURN_IF_ERROR(sample(position));
  return LoopEnd::Finished;
}

StatusOr<LoopEnd> TrainingLoop::run(LoopPosition &position) {
  stopSignal_ = 0;
  lastSaved_ = steadySeconds();
  StatusOr<LoopEnd> end = runSteps(position);
  if (end.isOk() && isPrepared_) { // the step that will not come: its exchange is not left behind
    isPrepared_ = false;
    ZTC_RETURN_IF_ERROR(ranks_.control.collect("counted targets").status());
  }
  return end;
}

} // namespace ztc
