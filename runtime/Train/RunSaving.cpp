// What a run leaves behind: checkpoints, the export, and a place for the state where neither is taken.
#include "runtime/Core/File.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Format/UpdateTime.h"
#include "runtime/Memory/Traffic.h"
#include "runtime/Train/Rescue.h"
#include "runtime/Train/RunStages.h"
#include "runtime/Train/Signals.h"
#include <fmt/format.h>

namespace ztc {

static void noteLastCheckpoint(const std::string &path) {
  setInterruptedText("ended without another checkpoint; the last one is " + path);
}

void RunStages::noteFirstCheckpoint() const {
  if (resumed_)
    noteLastCheckpoint(resumed_->path);
  else if (!output_.saveFolder().empty())
    setInterruptedText("ended without a checkpoint; none was written before");
}

Status RunStages::beginSave(const LoopPosition &position, SaveKind kind) {
  control_.progress().enterPhase("saving");
  TrainerState state;
  state.step = position.step;
  state.adamCount = position.updates;
  state.cursor = data_->cursor(position.row);
  state.globalBatch = ranks_.world() * accumulate_ * session_->plan().model().batch();
  state.seed = facts_.seed;
  state.shuffle = facts_.shuffle;
  state.lossScale = position.lossScale.scale;
  state.goodSteps = position.lossScale.goodSteps;
  state.skippedInARow = position.lossScale.skippedInARow;
  state.gradientNorms = position.guard.window();
  state.droppedInARow = position.guard.droppedInARow;
  state.gradientNorm = position.gradientNorm;
  ZTC_ASSIGN_OR_RETURN(state.fp8Maxima, runner_->fp8Maxima());
  state.run = output_.run();
  state.evalLoss = position.evalLoss;
  state.bestEvaluation = position.bestEvaluation;
  state.settings = learningSettings(options_, facts_.steps);
  state.environment = environment();
  state.algorithms = session_->algorithms().choices;
  savingStep_ = position.step;
  // What lies below the device is read where it is: moves that are still on their way come first.
  if (session_->lower())
    ZTC_RETURN_IF_ERROR(session_->synchronize());
  writer_->begin(session_->concurrentState(), std::move(state), output_.saveFolder(), output_.saveOptions(kind),
                 kind == SaveKind::Good ? noteLastCheckpoint : nullptr);
  return Status::ok();
}

Status RunStages::awaitSave() {
  if (!writer_ || !writer_->isInFlight())
    return Status::ok();
  control_.progress().enterPhase("saving");
  ZTC_ASSIGN_OR_RETURN(std::string path, writer_->end());
  progress_.note(fmt::format("after {} steps: saved {}", savingStep_, path));
  saved_ = {savingStep_, std::move(path)};
  return Status::ok();
}

Status RunStages::finishSave() {
  return goOnAfter(awaitSave());
}

Status RunStages::goOnAfter(const Status &status) {
  // A full disk, one that is read-only for a while, a network disk that is away: the next save may succeed. Where ranks
  // are lost there is no next one.
  if (status.isOk() || !control_.status().isOk())
    return status;
  progress_.note(fmt::format("warning: {}; the run goes on and tries again at its next save", status.message()));
  return Status::ok();
}

Status RunStages::saveDiverged(const LoopPosition &position) {
  ZTC_RETURN_IF_ERROR(finishSave());
  // With updates in the backward the weights before the step are gone: the last checkpoint is what there is.
  if (updatesInBackward(session_->plan()) || output_.saveFolder().empty() || position.step == facts_.firstStep ||
      (saved_ && saved_->first == position.step))
    return Status::ok();
  ZTC_RETURN_IF_ERROR(output_.claimSaveFolder());
  ZTC_RETURN_IF_ERROR(beginSave(position, SaveKind::Diverged));
  control_.progress().enterPhase("saving");
  ZTC_ASSIGN_OR_RETURN(diverged_, writer_->end());
  return Status::ok();
}

Status RunStages::save(const LoopPosition &position) {
  ZTC_RETURN_IF_ERROR(finishSave());
  if (saved_ && saved_->first == position.step)
    return Status::ok();
  ZTC_RETURN_IF_ERROR(output_.claimSaveFolder());
  ZTC_RETURN_IF_ERROR(beginSave(position));
  return awaitSave();
}

/// For a progress line: how long the computation has stood still for what lies below the device.
static std::string waitText(const LowerMemory *lower) {
  const uint64_t waited = lower ? lower->moved().waitedNanoseconds : 0;
  return waited ? fmt::format("  waited {:.1f} s for moves", double(waited) / 1e9) : "";
}

LoopHooks RunStages::loopHooks() {
  LoopHooks hooks;
  hooks.save = [this](const LoopPosition &position) {
    const bool waits = writer_->isInFlight() && !writer_->isWritten();
    const uint64_t before = savingStep_;
    const double began = steadySeconds();
    ZTC_RETURN_IF_ERROR(finishSave());
    if (waits)
      progress_.note(
          fmt::format("after {} steps: waited {:.1f} s for the checkpoint of step {}: it takes longer to write "
                      "than the steps between two saves; --save-every or --save-period makes them fewer",
                      position.step, steadySeconds() - began, before));
    // The folder may be gone, and with it what it was in.
    if (const Status claimed = output_.claimSaveFolder(); !claimed.isOk())
      return goOnAfter(claimed);
    ZTC_RETURN_IF_ERROR(beginSave(position));
    return writer_->isConcurrent() ? Status::ok() : finishSave();
  };
  hooks.beforeUpdate = [this] {
    if (!writer_->isInFlight())
      return;
    control_.progress().enterPhase("saving");
    writer_->awaitReading();
    control_.progress().enterPhase("training");
  };
  hooks.isSaved = [this] { return writer_->isWritten(); };
  hooks.endSave = [this] { return finishSave(); };
  if (!options_.dumpGradients.empty())
    hooks.dumpGradients = [this](float factor) {
      ZTC_RETURN_IF_ERROR(finishSave()); // both take the staging buffer
      return dumpGradients(session_->state(), options_.dumpGradients, factor);
    };
  if (events_.isOpen())
    hooks.addScalars = [this](uint64_t step, std::initializer_list<Scalar> scalars) { events_.write(step, scalars); };
  if (textModel_)
    hooks.sample = [this](const LoopPosition &position) { return sample(position); };
  hooks.describeDevice = [this](double tokensPerSecond) {
    return deviceText(*session_, tokensPerSecond) + waitText(session_->lower());
  };
  return hooks;
}

Status RunStages::finish(LoopEnd end, const LoopPosition &position) {
  if (options_.isTrial())
    return Status::ok();
  bool complete = end == LoopEnd::Finished;
  if (end == LoopEnd::Diverged)
    return saveDiverged(position);
  Status kept;
  if (!output_.saveFolder().empty() && (output_.savesAtEnd() || !complete))
    kept = save(position);
  if (!kept.isOk() && saved_ && pathExists(saved_->second))
    kept = Status(kept.code(), fmt::format("{} (whole is {})", kept.message(), saved_->second));
  output_.exported().record = runRecord(*session_, output_.run(), position.step);
  // A disk that is full for the checkpoint may be large enough for the model, or be another one.
  Status exported;
  const bool exports = complete && !output_.exported().folder.empty();
  if (exports && control_.status().isOk())
    exported = exportTo(output_.exported());
  const bool isSaved = saved_ && saved_->first == position.step;
  if (isSaved || (exports && exported.isOk()))
    return kept.isOk() ? exported : kept;
  const Status &failed = kept.isOk() ? exported : kept;
  return failed.isOk() ? failed : rescueState(failed, position);
}

Status RunStages::exportTo(const ExportOptions &options) {
  control_.progress().enterPhase("exporting");
  const double began = steadySeconds();
  ZTC_RETURN_IF_ERROR(exportModel(session_->state(), options));
  summary_.exportSeconds = steadySeconds() - began;
  progress_.note(fmt::format("exported {} ({})", options.folder, describeExport(session_->plan(), options)));
  return Status::ok();
}

Status RunStages::rescueState(const Status &failed, const LoopPosition &position) {
  if (!control_.status().isOk())
    return failed;
  progress_.note(fmt::format("warning: {}; another place is looked for", failed.message()));
  RescueOptions options;
  options.places = {parentFolder(options_.plan), ".", options_.temporaryFolder};
  options.name = defaultOutputFolder(options_.plan);
  options.name = options.name.substr(options.name.rfind('/') + 1) + "-rescued";
  options.mayWait = stopSignal() == 0;
  options.note = [this](const std::string &text) { progress_.note(text); };
  ExportOptions elsewhere = output_.exported();
  if (output_.exported().folder.empty()) // what was not asked for loses nothing
    elsewhere.type = plan::F32;
  const std::string meant = output_.saveFolder();
  const auto writeInto = [&](const std::string &folder) -> Status {
    ZTC_RETURN_IF_ERROR(output_.claim(folder));
    Status written = failed;
    if (output_.exported().folder.empty()) {
      output_.saveInto(folder);
      written = save(position);
    }
    elsewhere.folder = folder;
    return written.isOk() || !control_.status().isOk() ? written : exportTo(elsewhere);
  };
  options.write = [&](const std::string &folder) {
    const Status written = writeInto(folder);
    if (!written.isOk())
      output_.release(folder); // and with it the empty folder
    return written;
  };
  options.tryAgain = [&] {
    output_.saveInto(meant);
    return output_.exported().folder.empty() ? save(position) : exportTo(output_.exported());
  };
  const StatusOr<std::string> found = rescue(control_, options);
  if (!found.isOk())
    return failed;
  if (found->empty())
    return Status::ok();
  return Status(failed.code(), fmt::format("{}; nothing is lost: it is in {} instead", failed.message(), *found));
}

/// A GPU's graphs count nothing: what the plan says of a step, so many times.
static MovedBytes movedOf(const Session &session, uint64_t steps) {
  MovedBytes moved = session.lower()->moved();
  if (session.shape().threads)
    return moved;
  const MoveTraffic traffic = moveTraffic(session.plan(), session.memory(), session.shape());
  return {.hostIn = traffic.hostIn * steps,
          .hostOut = traffic.hostOut * steps,
          .diskIn = traffic.diskIn * steps,
          .diskOut = traffic.diskOut * steps};
}

void RunStages::summarize(const LoopTotals &totals) {
  summary_.totals = totals;
  summary_.watchedSet = loopSettings().watchedSet;
  summary_.seconds = steadySeconds() - began_;
  summary_.peakBytes = session_->arena().bytes();
  summary_.restarts = options_.restartsDone;
  if (session_->lower())
    summary_.moved = movedOf(*session_, totals.steps);
  progress_.note(summaryText(summary_));
  log_.write(summaryJson(summary_));
}

Status RunStages::saveBeforeBadRows(const Status &error, const LoopPosition &position) {
  if (options_.isTrial() || output_.saveFolder().empty() || position.step == facts_.firstStep)
    return error;
  Status kept = save(position);
  if (!kept.isOk())
    kept = rescueState(kept, position);
  if (!kept.isOk())
    return Status(error.code(), fmt::format("{}; {}", error.message(), kept.message()));
  return Status(error.code(), fmt::format("{} (the weights so far are in {})", error.message(),
                                          saved_ ? saved_->second : output_.exported().folder));
}

} // namespace ztc
