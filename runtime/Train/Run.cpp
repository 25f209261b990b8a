#include "runtime/Train/Run.h"
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/CheckpointWriter.h"
#include "runtime/Checkpoint/Export.h"
#include "runtime/Checkpoint/Weights.h"
#include "runtime/Collective/Communicator.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Ranks/Agreement.h"
#include "runtime/Train/DataSetRows.h"
#include "runtime/Train/EndMessages.h"
#include "runtime/Train/EventFile.h"
#include "runtime/Train/Observation.h"
#include "runtime/Train/RankComparison.h"
#include "runtime/Train/Rescue.h"
#include "runtime/Train/RunHeader.h"
#include "runtime/Train/RunOutput.h"
#include "runtime/Train/RunSummary.h"
#include "runtime/Train/Session.h"
#include "runtime/Train/Signals.h"
#include "runtime/Train/TextRun.h"
#include "runtime/Train/TrainingLoop.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ztc {

namespace {

/// What a trial uses where the plan's weights are not at hand.
constexpr double kTrialDeviation = 0.02;

/// The state of one run; each member function is a stage.
class Run {
public:
  Run(const RunOptions &options, const RunScreen &screen, RankContext ranks)
      : options_(options), ranks_(ranks), control_(ranks.control),
        progress_(ranks.isFirst() ? screen.out : nullptr, screen.live), screen_(screen), output_(options, ranks) {}

  StatusOr<RunEnd> generate(LoadedPlan loaded, std::unique_ptr<Device> device);
  StatusOr<RunEnd> train(LoadedPlan loaded, std::unique_ptr<Device> device);

private:
  Status findResume();
  Status chooseBatch(const plan::Plan &plan);
  StatusOr<std::unique_ptr<DataSet>> openData(const plan::Plan &plan, const std::vector<std::string> &files,
                                              bool shuffle);
  Status openAllData(const plan::Plan &plan);
  Status prepareOutput(const plan::Plan &plan);
  Status openSession(LoadedPlan loaded, std::unique_ptr<Device> device, PlanShape shape, double tuneSeconds);
  Status loadResumed();
  Status loadModel();
  void introduce();
  std::map<std::string, std::string> environment() const;
  LossScale firstLossScale() const;
  /// Begins to write a checkpoint; none is on its way.
  Status beginSave(const LoopPosition &position, SaveKind kind = SaveKind::Good);
  /// Writes the weights of a run that has diverged, which may be broken: where no `--keep` counts them and no
  /// `--resume` takes them.
  Status saveDiverged(const LoopPosition &position);
  /// Waits for the one on its way, if there is one.
  Status awaitSave();
  /// The same between two steps: a full disk costs this checkpoint, not the run.
  Status settleSave();
  /// Writes a checkpoint, unless that of this step is there.
  Status save(const LoopPosition &position);
  LoopHooks loopHooks();
  Status exportTo(const ExportOptions &options);
  Status finish(LoopEnd end, const LoopPosition &position);
  /// The end of a run whose state no place of its own took, for `failed`: another one does, or it waits for room.
  /// Returns `failed`, with where the state is.
  Status rescueState(const Status &failed, const LoopPosition &position);
  void summarize(const LoopTotals &totals);
  /// Rows that cannot be read end a run, but do not cost what it has learned. Returns `error`, with where that is.
  Status saveBeforeBadRows(const Status &error, const LoopPosition &position);

  const RunOptions &options_;
  RankContext ranks_;
  ControlChannel &control_;
  Progress progress_; ///< silent on ranks other than the first
  RunScreen screen_;
  std::unique_ptr<Session> session_;
  std::optional<FoundCheckpoint> resumed_;
  std::shared_ptr<const TokenizerFolder> tokenizer_; ///< null without --tokenizer=DIR
  std::unique_ptr<DataSet> data_;                    ///< null in a trial
  std::unique_ptr<DataSet> evalData_;
  RunOutput output_;
  JsonLog log_;
  EventFile events_;
  RunSummary summary_;
  double began_ = steadySeconds();
  RunFacts facts_;
  uint64_t accumulate_ = 1;
  std::optional<std::pair<uint64_t, std::string>> saved_; ///< step and path of the last checkpoint
  std::string diverged_;                                  ///< where the weights of a run that diverged are
  uint64_t savingStep_ = 0;                               ///< of the one on its way
  std::optional<CheckpointWriter> writer_;                ///< goes before the session
};

Status Run::findResume() {
  facts_.seed = options_.seed.value_or(0);
  facts_.shuffle = options_.shuffle;
  if (options_.resume.empty())
    return Status::ok();
  control_.progress().enterPhase("loading");
  std::vector<std::byte> staging(uint64_t(1) << 20);
  auto found = findCheckpoint(options_.resume, staging, &control_);
  if (!found.isOk())
    return found.status().withContext("--resume");
  resumed_ = std::move(*found);
  for (const std::string &sentence : resumed_->skipped)
    progress_.note("passed over: " + sentence);
  const TrainerState &state = resumed_->state;
  facts_.seed = options_.seed.value_or(state.seed);
  facts_.shuffle = options_.shuffle || state.shuffle;
  if (facts_.seed != state.seed || facts_.shuffle != state.shuffle)
    facts_.differs.push_back(fmt::format("rows come in another order (seed {}{}, it was {}{})", facts_.seed,
                                         facts_.shuffle ? ", shuffled" : "", state.seed,
                                         state.shuffle ? ", shuffled" : ""));
  facts_.firstStep = state.step;
  return Status::ok();
}

Status Run::chooseBatch(const plan::Plan &plan) {
  const uint64_t world = ranks_.world(), batch = plan.model().batch(), together = world * batch; // rows of a micro-step
  accumulate_ = options_.accumulate.value_or(1);
  if (!resumed_)
    return Status::ok();
  const uint64_t wanted = resumed_->state.globalBatch;
  const std::string split =
      fmt::format("{}this plan's micro-batch of {}", world > 1 ? fmt::format("{} ranks x ", world) : "", batch);
  if (options_.accumulate && *options_.accumulate * together != wanted)
    return failedPrecondition(
        fmt::format("--resume: the run has global batches of {} rows, --accumulate={} x {} makes {}: "
                    "leave --accumulate out",
                    wanted, *options_.accumulate, split, *options_.accumulate * together));
  if (wanted == 0 || wanted % together != 0)
    return failedPrecondition(fmt::format("--resume: the run has global batches of {} rows, which {} does not divide "
                                          "({} / {} micro-steps): {}compile with another --batch",
                                          wanted, split, wanted, together,
                                          world > 1 ? "take another number of ranks or " : ""));
  accumulate_ = wanted / together;
  if (accumulate_ > UINT32_MAX)
    return failedPrecondition(fmt::format("--resume: {} micro-steps are too many", accumulate_));
  return Status::ok();
}

StatusOr<std::unique_ptr<DataSet>> Run::openData(const plan::Plan &plan, const std::vector<std::string> &files,
                                                 bool shuffle) {
  return DataSet::open({.files = files,
                        .bytesTokenizer = options_.tokenizer == "bytes",
                        .tokenBytes = options_.tokenBytes.value_or(0),
                        .shuffle = shuffle,
                        .seed = facts_.seed,
                        .seq = plan.model().seq(),
                        .vocabulary = plan.model().vocabulary(),
                        .text = textOptions(options_, tokenizer_, control_, progress_)});
}

/// Targets that all are -100 are seen before the first step, not after the last.
static Status checkTargets(const DataSet &data, const std::vector<std::string> &files, const char *option) {
  ZTC_ASSIGN_OR_RETURN(const bool counted, data.hasCountedTarget());
  return counted
             ? Status::ok()
             : invalidArgument(fmt::format("{}: no row of '{}'{} has a target that counts: all labels are -100, which "
                                           "stands for `ignored`",
                                           option, files[0], files.size() > 1 ? " and the other files" : ""));
}

Status Run::openAllData(const plan::Plan &plan) {
  facts_.steps = options_.steps.value_or(kTrialSteps);
  if (options_.isTrial())
    return Status::ok();
  uint64_t globalBatch = ranks_.world() * accumulate_ * plan.model().batch();
  control_.progress().enterPhase("reading data");
  ZTC_ASSIGN_OR_RETURN(tokenizer_, openTokenizer(options_));
  ZTC_ASSIGN_OR_RETURN(data_, openData(plan, options_.data, facts_.shuffle));
  ZTC_RETURN_IF_ERROR(data_->checkGlobalBatch(globalBatch));
  const uint64_t scanned = ranks_.isFirst() ? options_.scanBytes : 0; // one rank is enough
  ZTC_RETURN_IF_ERROR(data_->checkRows(scanned));
  ZTC_RETURN_IF_ERROR(checkTargets(*data_, options_.data, "--data"));
  facts_.rows = data_->rows();
  if (options_.epochs)
    facts_.steps = uint64_t(std::ceil(*options_.epochs * double(facts_.rows) / double(globalBatch)));
  if (facts_.firstStep > facts_.steps)
    return invalidArgument(
        fmt::format("--resume: {} has done {} steps, {} asks for {} in all: give the number that the "
                    "run is to have at its end",
                    resumed_->path, facts_.firstStep, options_.epochs ? "--epochs" : "--steps", facts_.steps));
  if (!options_.evalData.empty()) {
    auto opened = openData(plan, options_.evalData, false);
    if (!opened.isOk())
      return opened.status().withContext("--eval-data");
    evalData_ = std::move(*opened);
    ZTC_RETURN_IF_ERROR(evalData_->checkRows(scanned).withContext("--eval-data"));
    ZTC_RETURN_IF_ERROR(checkTargets(*evalData_, options_.evalData, "--eval-data"));
  }
  return Status::ok();
}

Status Run::prepareOutput(const plan::Plan &plan) {
  const uint64_t end = std::min(options_.stopAfter.value_or(facts_.steps), facts_.steps);
  ZTC_RETURN_IF_ERROR(output_.prepare(plan, resumed_, end - std::min(end, facts_.firstStep)));
  facts_.run = output_.run();
  ZTC_RETURN_IF_ERROR(output_.openLog(log_));
  Status opened;
  if (ranks_.isFirst() && !options_.tensorboard.empty())
    opened = events_.open(options_.tensorboard, output_.run(), options_.overwrite);
  return agree(&control_, "event file", opened);
}

/// Plan, memory and algorithms; `tuneSeconds`: that measuring these may take.
Status Run::openSession(LoadedPlan loaded, std::unique_ptr<Device> device, PlanShape shape, double tuneSeconds) {
  control_.progress().enterPhase("preparing");
  AlgorithmPolicy algorithms{.cacheFolder = options_.cacheFolder, .seconds = tuneSeconds};
  if (resumed_)
    algorithms.resumed = &resumed_->state.algorithms;
  algorithms.progress = [this](size_t done, size_t all) {
    control_.progress().addWork();
    const double now = steadySeconds();
    if (progress_.isDue(now, false))
      progress_.show(fmt::format("measuring algorithms of matrix products: {} of {}", done, all), now);
  };
  ZTC_ASSIGN_OR_RETURN(session_, Session::open(std::move(loaded), std::move(device), shape, ranks_, algorithms));
  for (const std::string &note : session_->algorithms().notes)
    progress_.note(note);
  if (!session_->algorithms().differs.empty())
    facts_.differs.push_back(session_->algorithms().differs);
  return Status::ok();
}

Status Run::loadResumed() {
  Status loaded;
  std::string path;
  // The run that writes there may have removed it since it was found, for a newer one.
  for (int attempt = 0; attempt < 10 && path != resumed_->path; ++attempt) {
    facts_.weights = "checkpoint " + (path = resumed_->path);
    loaded = loadCheckpoint(session_->state(), path);
    if (loaded.code() != StatusCode::NotFound)
      break;
    ZTC_RETURN_IF_ERROR(findResume());
  }
  return loaded;
}

Status Run::loadModel() {
  control_.progress().enterPhase("loading");
  if (resumed_)
    return loadResumed();
  WeightOptions weights;
  weights.weights = options_.weights;
  weights.seed = facts_.seed;
  const uint32_t threads = session_->shape().threads;
  weights.threads = threads ? threads : availableCores(); // a GPU has none that it computes with
  weights.planFolder = parentFolder(options_.plan);
  facts_.weights = options_.weights.empty() ? "as compiled" : options_.weights;
  if (!options_.init.empty()) {
    ZTC_ASSIGN_OR_RETURN(weights.initDeviation, parseInit(options_.init));
    facts_.weights = fmt::format("random, {}, seed {}", options_.init, facts_.seed);
  }
  const auto fresh = session_->plan().options().find("fresh-weights");
  if (options_.init.empty() && options_.weights.empty() && fresh != session_->plan().options().end()) {
    ZTC_ASSIGN_OR_RETURN(weights.initDeviation, parseInit(fresh->second));
    facts_.weights = fmt::format("fresh, {} (initializer_range of config.json), seed {}", fresh->second, facts_.seed);
  }
  Status known = agree(&control_, "weights found", checkWeights(session_->plan(), weights));
  if (!known.isOk() && options_.isTrial() && options_.weights.empty()) {
    // A trial measures memory and speed: it does not need the real ones.
    weights.initDeviation = kTrialDeviation;
    facts_.weights = fmt::format("random, normal:{} ({})", kTrialDeviation, known.message());
    known = Status::ok();
  }
  ZTC_RETURN_IF_ERROR(known);
  return loadWeights(session_->state(), weights);
}

std::map<std::string, std::string> Run::environment() const {
  const auto &options = session_->plan().options();
  const auto state = options.find("optimizer-state");
  return {{"ztc", session_->plan().ztc_version()},
          {"device", session_->device().description()},
          {"threads", std::to_string(session_->shape().threads)},
          {"world", std::to_string(session_->shape().world)},
          {"communicator", ranks_.communicator ? ranks_.communicator->name() : "none"},
          {"plan", session_->planSha256()},
          {"precision", session_->plan().precision()},
          {"optimizer state", state != options.end() ? state->second : "fp32"},
          {"ZeRO stage", std::to_string(session_->plan().zero())},
          {"data", data_ ? data_->fingerprint() : "random tokens"}};
}

/// That of the checkpoint, where it is of a run in fp16: --loss-scale is of a run's first step.
LossScale Run::firstLossScale() const {
  LossScale scale;
  scale.isDynamic = session_->plan().precision() == "fp16";
  if (!scale.isDynamic)
    return scale;
  scale.scale = options_.lossScale.value_or(LossScale::kFirst);
  if (!resumed_)
    return scale;
  const TrainerState &state = resumed_->state;
  const auto before = state.environment.find("precision");
  if (before == state.environment.end() || before->second != "fp16" || !(state.lossScale > 0))
    return scale;
  scale.scale = state.lossScale;
  scale.goodSteps = state.goodSteps;
  // A run that ended after too many skips gets as many again.
  scale.skippedInARow = state.skippedInARow < LossScale::kMostSkipsInARow ? state.skippedInARow : 0;
  return scale;
}

void Run::introduce() {
  if (const LossScale scale = firstLossScale(); scale.isDynamic)
    facts_.lossScale = scale.scale;
  const auto compare = [this](const std::map<std::string, std::string> &now,
                              const std::map<std::string, std::string> &then) {
    for (const auto &[key, value] : now)
      if (const auto before = then.find(key); before != then.end() && before->second != value)
        facts_.differs.push_back(fmt::format("{} {}, it was {}", key, value, before->second));
  };
  if (resumed_) {
    compare(learningSettings(options_, facts_.steps), resumed_->state.settings);
    compare(environment(), resumed_->state.environment);
  }
  progress_.note(headerText(options_, *session_, facts_));
  for (const std::string &difference : facts_.differs)
    progress_.note("differs from the checkpoint: " + difference);
  if (log_.isOpen())
    log_.write(headerJson(options_, *session_, facts_));
}

Status Run::beginSave(const LoopPosition &position, SaveKind kind) {
  ZTC_RETURN_IF_ERROR(output_.claimSaveFolder());
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
  state.run = output_.run();
  state.evalLoss = position.evalLoss;
  state.settings = learningSettings(options_, facts_.steps);
  state.environment = environment();
  state.algorithms = session_->algorithms().choices;
  savingStep_ = position.step;
  writer_->begin(session_->stateBeside(), std::move(state), output_.saveFolder(), output_.saveOptions(kind));
  return Status::ok();
}

Status Run::awaitSave() {
  if (!writer_ || !writer_->isUnderWay())
    return Status::ok();
  control_.progress().enterPhase("saving");
  ZTC_ASSIGN_OR_RETURN(std::string path, writer_->end());
  progress_.note(fmt::format("after {} steps: saved {}", savingStep_, path));
  saved_ = {savingStep_, std::move(path)};
  return Status::ok();
}

Status Run::settleSave() {
  const Status status = awaitSave();
  // A full disk, one that is read-only for a while, a network disk that is away: the next save may succeed. Where ranks
  // are lost there is no next one.
  if (status.isOk() || !control_.status().isOk())
    return status;
  progress_.note(fmt::format("warning: {}; the run goes on and tries again at its next save", status.message()));
  return Status::ok();
}

Status Run::saveDiverged(const LoopPosition &position) {
  ZTC_RETURN_IF_ERROR(settleSave());
  if (output_.saveFolder().empty() || position.step == facts_.firstStep || (saved_ && saved_->first == position.step))
    return Status::ok();
  ZTC_RETURN_IF_ERROR(beginSave(position, SaveKind::Diverged));
  control_.progress().enterPhase("saving");
  ZTC_ASSIGN_OR_RETURN(diverged_, writer_->end());
  return Status::ok();
}

Status Run::save(const LoopPosition &position) {
  ZTC_RETURN_IF_ERROR(settleSave());
  if (saved_ && saved_->first == position.step)
    return Status::ok();
  ZTC_RETURN_IF_ERROR(beginSave(position));
  return awaitSave();
}

LoopHooks Run::loopHooks() {
  LoopHooks hooks;
  hooks.save = [this](const LoopPosition &position) {
    ZTC_RETURN_IF_ERROR(settleSave());
    ZTC_RETURN_IF_ERROR(beginSave(position));
    return writer_->isBeside() ? Status::ok() : settleSave();
  };
  hooks.beforeUpdate = [this] {
    if (!writer_->isUnderWay())
      return;
    control_.progress().enterPhase("saving");
    writer_->awaitReading();
    control_.progress().enterPhase("training");
  };
  hooks.isSaved = [this] { return writer_->isWritten(); };
  hooks.endSave = [this] { return settleSave(); };
  if (!options_.dumpGradients.empty())
    hooks.dumpGradients = [this](float factor) {
      ZTC_RETURN_IF_ERROR(settleSave()); // both take the staging buffer
      return dumpGradients(session_->state(), options_.dumpGradients, factor);
    };
  if (events_.isOpen())
    hooks.addScalars = [this](uint64_t step, std::initializer_list<Scalar> scalars) { events_.write(step, scalars); };
  hooks.describeDevice = [this](double tokensPerSecond) { return deviceText(*session_, tokensPerSecond); };
  return hooks;
}

Status Run::finish(LoopEnd end, const LoopPosition &position) {
  if (options_.isTrial())
    return Status::ok();
  bool complete = end == LoopEnd::Finished;
  if (end == LoopEnd::Diverged)
    return saveDiverged(position);
  Status kept;
  if (!output_.saveFolder().empty() && (output_.savesAtEnd() || !complete))
    kept = save(position);
  if (!kept.isOk() && saved_)
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

Status Run::exportTo(const ExportOptions &options) {
  control_.progress().enterPhase("exporting");
  const double began = steadySeconds();
  ZTC_RETURN_IF_ERROR(exportModel(session_->state(), options));
  summary_.exportSeconds = steadySeconds() - began;
  progress_.note(fmt::format("exported {} ({})", options.folder, describeExport(session_->plan(), options)));
  return Status::ok();
}

Status Run::rescueState(const Status &failed, const LoopPosition &position) {
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

void Run::summarize(const LoopTotals &totals) {
  summary_.totals = totals;
  summary_.seconds = steadySeconds() - began_;
  summary_.peakBytes = session_->arena().bytes();
  progress_.note(summaryText(summary_));
  log_.write(summaryJson(summary_));
}

Status Run::saveBeforeBadRows(const Status &error, const LoopPosition &position) {
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

StatusOr<RunEnd> Run::train(LoadedPlan loaded, std::unique_ptr<Device> device) {
  ZTC_RETURN_IF_ERROR(findResume());
  ZTC_RETURN_IF_ERROR(chooseBatch(loaded.plan));
  ZTC_RETURN_IF_ERROR(agree(&control_, "data opened", openAllData(loaded.plan)));
  ZTC_RETURN_IF_ERROR(
      compareRanks(control_, "the data", linesOfData(options_, facts_, accumulate_, data_.get(), evalData_.get())));
  ZTC_RETURN_IF_ERROR(prepareOutput(loaded.plan));
  ZTC_RETURN_IF_ERROR(
      openSession(std::move(loaded), std::move(device), {.accumulate = uint32_t(accumulate_)}, options_.tuneSeconds));
  ZTC_RETURN_IF_ERROR(loadModel());
  ZTC_RETURN_IF_ERROR(session_->synchronize()); // a checkpoint may be the first that is made of it
  introduce();

  RandomRows randomRows(session_->plan().model().vocabulary(), facts_.seed);
  std::optional<DataSetRows> dataRows, evalRows;
  EvaluationData evaluation;
  if (data_)
    dataRows.emplace(*data_);
  if (evalData_) {
    evalRows.emplace(*evalData_);
    evaluation = {&*evalRows, evalData_->rows()};
  }
  LoopSettings settings;
  settings.schedule = {.kind = options_.schedule,
                       .learningRate = options_.learningRate,
                       .steps = facts_.steps,
                       .warmup = options_.warmup,
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
  writer_.emplace(session_->canReadBeside());
  LoopHooks hooks = loopHooks();
  LoopPosition position;
  if (resumed_)
    position = {resumed_->state.step, resumed_->state.adamCount, data_->position(resumed_->state.cursor)};
  position.lossScale = firstLossScale();
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
  RowSource &rows = dataRows ? static_cast<RowSource &>(*dataRows) : randomRows;
  TrainingLoop loop(session_->plan(), runner, rows, evaluation, settings, hooks, ranks_, log_, progress_);
  summary_.loadingSeconds = steadySeconds() - began_;
  const StatusOr<LoopEnd> end = loop.run(position);
  progress_.finishLine();
  if (!end.isOk() && !loop.endedByRows())
    (void)settleSave(); // it is as good as it is; the error that ended the run is told
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

StatusOr<RunEnd> Run::generate(LoadedPlan loaded, std::unique_ptr<Device> device) {
  // Bytes and some special tokens: more are those of a tokenizer.
  constexpr uint64_t kMostByteTokens = 320;
  if (const uint64_t vocabulary = loaded.plan.model().vocabulary();
      vocabulary > kMostByteTokens && options_.tokenizer.empty())
    return failedPrecondition(fmt::format(
        "--generate: the model has a vocabulary of {} tokens, bytes alone would print noise: give its tokenizer with "
        "--tokenizer=DIR, or --tokenizer=bytes where it was trained on bytes",
        vocabulary));
  ZTC_RETURN_IF_ERROR(openSession(std::move(loaded), std::move(device), {}, 0)); // it is over sooner than measured
  ZTC_RETURN_IF_ERROR(loadModel());
  ZTC_ASSIGN_OR_RETURN(const bool complete,
                       generateForPrompts(options_, *session_, control_, ranks_.isFirst() ? screen_.out : nullptr));
  return complete ? RunEnd::Done : RunEnd::Stopped;
}

} // namespace

StatusOr<RunEnd> runPlan(const RunOptions &options, LoadedPlan loaded, std::unique_ptr<Device> device,
                         const RunScreen &screen, RankContext ranks) {
  // Before anything that ranks do together: those that were started differently would wait for one another.
  ZTC_RETURN_IF_ERROR(compareRanks(ranks.control, "the run", linesOfOptions(options, loaded.sha256)));
  Run run(options, screen, ranks);
  return options.trains() ? run.train(std::move(loaded), std::move(device))
                          : run.generate(std::move(loaded), std::move(device));
}

} // namespace ztc
