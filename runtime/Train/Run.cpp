#include "runtime/Train/Run.h"
#include "runtime/Core/File.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Ranks/Agreement.h"
#include "runtime/Train/DataSetRows.h"
#include "runtime/Train/EndMessages.h"
#include "runtime/Train/Observation.h"
#include "runtime/Train/RankComparison.h"
#include "runtime/Train/RunStages.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace ztc {

LoopSettings RunStages::loopSettings() const {
  LoopSettings settings;
  settings.schedule = {.kind = options_.schedule,
                       .learningRate = options_.learningRate,
                       .steps = facts_.steps,
                       .warmup = warmupSteps(options_, facts_.steps),
                       .minRatio = options_.minLrRatio.value_or(kDefaultMinLrRatio)};
  settings.optimizer = options_.optimizer;
  settings.accumulate = accumulate_;
  settings.stopAt = std::min(options_.stopAfter.value_or(facts_.steps), facts_.steps);
  settings.seed = facts_.seed;
  settings.saveEvery = options_.saveEvery;
  settings.savePeriodSeconds = output_.savePeriodSeconds();
  settings.savesBest = options_.keepBest;
  settings.logEvery = options_.logEvery.value_or(1);
  settings.rowsPerEpoch = facts_.rows;
  settings.evalEvery = options_.evalEvery;
  settings.watchedSet = *watchedEvaluation(evaluationFiles(options_.evalData), options_.keepBestOf); // it was checked
  settings.patience = options_.patience;
  settings.sampleEvery = options_.sampleEvery;
  return settings;
}

StatusOr<RunEnd> RunStages::train(LoadedPlan loaded, std::unique_ptr<Device> device) {
  ZTC_RETURN_IF_ERROR(findResume());
  ZTC_RETURN_IF_ERROR(chooseBatch(loaded.plan));
  ZTC_RETURN_IF_ERROR(agree(&control_, "data opened", openAllData(loaded.plan)));
  ZTC_RETURN_IF_ERROR(
      compareRanks(control_, "the data", linesOfData(options_, facts_, accumulate_, data_.get(), heldOut_)));
  ZTC_RETURN_IF_ERROR(prepareOutput(loaded.plan));
  ZTC_RETURN_IF_ERROR(
      openSession(std::move(loaded), std::move(device), {.accumulate = uint32_t(accumulate_)}, options_.tuneSeconds));
  ZTC_RETURN_IF_ERROR(loadModel());
  ZTC_RETURN_IF_ERROR(session_->synchronize()); // a checkpoint may be the first that is made of it
  introduce();

  RandomRows randomRows(session_->plan().model().vocabulary(), facts_.seed);
  std::optional<DataSetRows> dataRows;
  if (data_)
    dataRows.emplace(*data_);
  LoopSettings settings = loopSettings();
  ZTC_RETURN_IF_ERROR(agree(&control_, "samples prepared", prepareSamples()));
  writer_.emplace(session_->canReadConcurrently());
  noteFirstCheckpoint();
  LoopHooks hooks = loopHooks();
  LoopPosition position;
  if (resumed_)
    position = {resumed_->state.step, resumed_->state.adamCount, data_->position(resumed_->state.cursor)};
  position.lossScale = firstLossScale();
  if (resumed_)
    position.bestEvaluation = resumed_->state.bestEvaluation;
  if (resumed_)
    position.gradientNorm = resumed_->state.gradientNorm;
  position.guard = firstGuard();
  if (resumed_ && options_.keepBest) {
    ZTC_ASSIGN_OR_RETURN(settings.bestEvalLoss, output_.bestEvalLoss());
  }
  uint64_t steps = settings.stopAt - std::min(settings.stopAt, position.step);
  RunOptions observed = options_;
  if (!ranks_.isFirst()) { // rank 0 speaks for all
    observed.profile.clear();
    observed.trace.clear();
  }
  ZTC_ASSIGN_OR_RETURN(Observation observation, Observation::begin(observed, *session_, steps));
  hooks.afterStep = observation.afterStep();
  ZTC_ASSIGN_OR_RETURN(StepRunner runner, StepRunner::create(session_->plan(), session_->executor()));
  runner_ = &runner;
  ZTC_RETURN_IF_ERROR(restoreFp8Maxima());
  RowSource &rows = dataRows ? static_cast<RowSource &>(*dataRows) : randomRows;
  TrainingLoop loop(session_->plan(), runner, rows, evaluationSets(), settings, hooks, ranks_, log_, progress_);
  summary_.loadingSeconds = steadySeconds() - began_;
  const StatusOr<LoopEnd> end = loop.run(position);
  progress_.finishLine();
  if (!end.isOk() && !loop.endedByRows())
    (void)finishSave(); // best effort: the error that ended the run is what is returned
  if (!end.isOk())
    return loop.endedByRows() ? saveBeforeBadRows(end.status(), position) : end.status();
  const Status observedWell = observation.end(screen_.out, log_);
  const double finishBegan = steadySeconds();
  ZTC_RETURN_IF_ERROR(finish(*end, position)); // the model first
  LoopTotals totals = loop.totals();
  totals.saveSeconds += steadySeconds() - finishBegan - summary_.exportSeconds;
  if (*end == LoopEnd::Finished || *end == LoopEnd::Signalled)
    summarize(totals);
  ZTC_RETURN_IF_ERROR(observedWell);
  switch (*end) {
  case LoopEnd::Finished:
    return RunEnd::Done;
  case LoopEnd::Signalled:
    progress_.note(fmt::format("stopped by {} after {} of {} steps{}", stopSignalName(loop.stoppedBy()), position.step,
                               facts_.steps,
                               saved_ ? fmt::format("; go on with --resume {}", parentFolder(saved_->second)) : ""));
    return RunEnd::Stopped;
  case LoopEnd::Overflowed:
    return overflowEnd(position, saved_ ? saved_->second : "");
  case LoopEnd::Diverged:
    break;
  }
  return divergenceEnd({.step = position.step,
                        .hasUpdated = position.step != facts_.firstStep,
                        .lastGood = saved_ ? saved_->second : "",
                        .resumed = resumed_ ? resumed_->path : "",
                        .suspected = diverged_});
}

StatusOr<RunEnd> RunStages::generate(LoadedPlan loaded, std::unique_ptr<Device> device) {
  ZTC_RETURN_IF_ERROR(checkTextTokens(options_, loaded.plan.model().vocabulary(), "--generate"));
  ZTC_RETURN_IF_ERROR(openSession(std::move(loaded), std::move(device), {}, 0)); // it is over sooner than measured
  ZTC_RETURN_IF_ERROR(loadModel());
  ZTC_ASSIGN_OR_RETURN(const bool complete,
                       generateForPrompts(options_, *session_, control_, ranks_.isFirst() ? screen_.out : nullptr));
  return complete ? RunEnd::Done : RunEnd::Stopped;
}

StatusOr<RunEnd> runPlan(const RunOptions &options, LoadedPlan loaded, std::unique_ptr<Device> device,
                         const RunScreen &screen, RankContext ranks) {
  // Before anything that ranks do together: those that were started differently would wait for one another.
  ZTC_RETURN_IF_ERROR(compareRanks(ranks.control, "the run", linesOfOptions(options, loaded.sha256)));
  RunStages run(options, screen, ranks);
  if (options.evalOnly)
    return run.evaluate(std::move(loaded), std::move(device));
  return options.trains() ? run.train(std::move(loaded), std::move(device))
                          : run.generate(std::move(loaded), std::move(device));
}

} // namespace ztc
