#include "runtime/Train/Run.h"
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/Export.h"
#include "runtime/Checkpoint/Weights.h"
#include "runtime/Core/File.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Train/Generate.h"
#include "runtime/Train/Observation.h"
#include "runtime/Train/RunHeader.h"
#include "runtime/Train/Session.h"
#include "runtime/Train/Signals.h"
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

/// Rows of files, in the order of the data set.
class DataSetRows final : public RowSource {
public:
  explicit DataSetRows(const DataSet &data) : data_(data) {}
  Status read(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) override {
    return data_.fillRow(index, tokens.data(), targets.data());
  }

private:
  const DataSet &data_;
};

/// The state of one run; each member function is a stage.
class Run {
public:
  Run(const RunOptions &options, const RunScreen &screen)
      : options_(options), progress_(screen.out, screen.live), screen_(screen) {}

  StatusOr<RunEnd> generate(LoadedPlan loaded, std::unique_ptr<Device> device);
  StatusOr<RunEnd> train(LoadedPlan loaded, std::unique_ptr<Device> device);

private:
  Status findResume();
  Status chooseBatch(const plan::Plan &plan);
  StatusOr<std::unique_ptr<DataSet>> openData(const plan::Plan &plan, const std::vector<std::string> &files,
                                              bool shuffle) const;
  Status openAllData(const plan::Plan &plan);
  Status prepareOutput(const plan::Plan &plan);
  Status loadModel();
  Status introduce();
  std::map<std::string, std::string> environment() const;
  Status save(const LoopPosition &position);
  Status finish(LoopEnd end, const LoopPosition &position);

  const RunOptions &options_;
  Progress progress_;
  RunScreen screen_;
  std::unique_ptr<Session> session_;
  std::optional<FoundCheckpoint> resumed_;
  std::unique_ptr<DataSet> data_; ///< null in a trial
  std::unique_ptr<DataSet> evalData_;
  JsonLog log_;
  RunFacts facts_;
  uint64_t accumulate_ = 1;
  std::string saveFolder_;                                ///< of checkpoints; empty: none are written
  bool savesAtEnd_ = false;                               ///< a run that goes to its end leaves a checkpoint too
  ExportOptions export_;                                  ///< folder empty: no export
  std::optional<std::pair<uint64_t, std::string>> saved_; ///< step and path of the last checkpoint
};

Status Run::findResume() {
  facts_.seed = options_.seed.value_or(0);
  facts_.shuffle = options_.shuffle;
  if (options_.resume.empty())
    return Status::ok();
  std::vector<std::byte> staging(uint64_t(1) << 20);
  auto found = findCheckpoint(options_.resume, staging);
  if (!found.isOk())
    return found.status().withContext("--resume");
  resumed_ = std::move(*found);
  for (const std::string &sentence : resumed_->skipped)
    progress_.note("passed over: " + sentence);
  const TrainerState &state = resumed_->state;
  facts_.seed = options_.seed.value_or(state.seed);
  facts_.shuffle = options_.shuffle || state.shuffle;
  if (facts_.seed != state.seed || facts_.shuffle != state.shuffle)
    progress_.note(fmt::format("differs from the checkpoint: rows come in another order (seed {}{}, it was {}{})",
                               facts_.seed, facts_.shuffle ? ", shuffled" : "", state.seed,
                               state.shuffle ? ", shuffled" : ""));
  facts_.firstStep = state.step;
  return Status::ok();
}

Status Run::chooseBatch(const plan::Plan &plan) {
  uint64_t microBatch = plan.model().batch(); // W = 1
  accumulate_ = options_.accumulate.value_or(1);
  if (!resumed_)
    return Status::ok();
  uint64_t wanted = resumed_->state.globalBatch;
  if (options_.accumulate && *options_.accumulate * microBatch != wanted)
    return failedPrecondition(fmt::format("--resume: the run has global batches of {} rows, --accumulate={} with this "
                                          "plan's micro-batch of {} makes {}: leave --accumulate out",
                                          wanted, *options_.accumulate, microBatch, *options_.accumulate * microBatch));
  if (wanted == 0 || wanted % microBatch != 0)
    return failedPrecondition(fmt::format("--resume: the run has global batches of {} rows, which this plan's "
                                          "micro-batch of {} does not divide: compile with another --batch",
                                          wanted, microBatch));
  accumulate_ = wanted / microBatch;
  return Status::ok();
}

StatusOr<std::unique_ptr<DataSet>> Run::openData(const plan::Plan &plan, const std::vector<std::string> &files,
                                                 bool shuffle) const {
  return DataSet::open({.files = files,
                        .bytesTokenizer = options_.tokenizer == "bytes",
                        .shuffle = shuffle,
                        .seed = facts_.seed,
                        .seq = plan.model().seq(),
                        .vocabulary = plan.model().vocabulary()});
}

Status Run::openAllData(const plan::Plan &plan) {
  facts_.steps = options_.steps.value_or(kTrialSteps);
  if (options_.isTrial())
    return Status::ok();
  uint64_t globalBatch = accumulate_ * plan.model().batch();
  ZTC_ASSIGN_OR_RETURN(data_, openData(plan, options_.data, facts_.shuffle));
  ZTC_RETURN_IF_ERROR(data_->checkGlobalBatch(globalBatch));
  facts_.rows = data_->rows();
  if (options_.epochs)
    facts_.steps = uint64_t(std::ceil(*options_.epochs * double(facts_.rows) / double(globalBatch)));
  if (!options_.evalData.empty()) {
    auto opened = openData(plan, options_.evalData, false);
    if (!opened.isOk())
      return opened.status().withContext("--eval-data");
    evalData_ = std::move(*opened);
  }
  return Status::ok();
}

Status Run::prepareOutput(const plan::Plan &plan) {
  if (options_.isTrial())
    return Status::ok();
  bool nowhere = options_.save.empty() && options_.exportFolder.empty();
  savesAtEnd_ = !options_.save.empty() || (options_.stopAfter && !options_.noSave);
  if (!options_.noSave)
    saveFolder_ = options_.save.empty() ? defaultOutputFolder(options_.plan) : options_.save;
  export_.folder =
      nowhere && !options_.noSave && !options_.stopAfter ? defaultOutputFolder(options_.plan) : options_.exportFolder;
  export_.hfConfig = options_.hfConfig;
  ZTC_ASSIGN_OR_RETURN(export_.type, parseExportType(options_.exportDtype, plan));
  if (!export_.folder.empty())
    ZTC_RETURN_IF_ERROR(prepareExport(plan, export_));
  if (savesAtEnd_)
    ZTC_RETURN_IF_ERROR(prepareCheckpoints(plan, saveFolder_));
  return Status::ok();
}

Status Run::loadModel() {
  if (resumed_) {
    facts_.weights = "checkpoint " + resumed_->path;
    return loadCheckpoint(session_->state(), resumed_->path);
  }
  WeightOptions weights;
  weights.weights = options_.weights;
  weights.seed = facts_.seed;
  weights.planFolder = parentFolder(options_.plan);
  facts_.weights = options_.weights.empty() ? "as compiled" : options_.weights;
  if (!options_.init.empty()) {
    ZTC_ASSIGN_OR_RETURN(weights.initDeviation, parseInit(options_.init));
    facts_.weights = fmt::format("random, {}, seed {}", options_.init, facts_.seed);
  }
  Status known = checkWeights(session_->plan(), weights);
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
  return {{"ztc", session_->plan().ztc_version()},
          {"device", session_->device().description()},
          {"threads", std::to_string(session_->shape().threads)},
          {"world", std::to_string(session_->shape().world)},
          {"plan", session_->planSha256()}};
}

Status Run::introduce() {
  progress_.note(headerText(options_, *session_, facts_));
  if (resumed_)
    for (const auto &[key, value] : environment()) {
      auto before = resumed_->state.environment.find(key);
      if (before != resumed_->state.environment.end() && before->second != value)
        progress_.note(fmt::format("differs from the checkpoint: {} {}, it was {}", key, value, before->second));
    }
  if (options_.logJson.empty())
    return Status::ok();
  ZTC_RETURN_IF_ERROR(log_.open(options_.logJson, resumed_.has_value()));
  log_.write(headerJson(options_, *session_, facts_));
  return Status::ok();
}

Status Run::save(const LoopPosition &position) {
  if (saved_ && saved_->first == position.step)
    return Status::ok();
  TrainerState state;
  state.step = position.step;
  state.adamCount = position.updates;
  state.cursor = data_->cursor(position.row);
  state.globalBatch = accumulate_ * session_->plan().model().batch();
  state.seed = facts_.seed;
  state.shuffle = facts_.shuffle;
  state.environment = environment();
  ZTC_ASSIGN_OR_RETURN(std::string path,
                       saveCheckpoint(session_->state(), state, saveFolder_, options_.keep.value_or(0)));
  saved_ = {position.step, path};
  progress_.note(fmt::format("after {} steps: saved {}", position.step, path));
  return Status::ok();
}

Status Run::finish(LoopEnd end, const LoopPosition &position) {
  if (options_.isTrial())
    return Status::ok();
  bool complete = end == LoopEnd::Finished;
  if (!saveFolder_.empty() && (savesAtEnd_ || !complete))
    ZTC_RETURN_IF_ERROR(save(position));
  if (complete && !export_.folder.empty()) {
    ZTC_RETURN_IF_ERROR(exportModel(session_->state(), export_));
    progress_.note("exported " + export_.folder);
  }
  return Status::ok();
}

StatusOr<RunEnd> Run::train(LoadedPlan loaded, std::unique_ptr<Device> device) {
  ZTC_RETURN_IF_ERROR(findResume());
  ZTC_RETURN_IF_ERROR(chooseBatch(loaded.plan));
  ZTC_RETURN_IF_ERROR(openAllData(loaded.plan));
  ZTC_RETURN_IF_ERROR(prepareOutput(loaded.plan));
  ZTC_ASSIGN_OR_RETURN(session_, Session::open(std::move(loaded), std::move(device),
                                               {.world = 1, .accumulate = uint32_t(accumulate_), .threads = 1}));
  ZTC_RETURN_IF_ERROR(loadModel());
  ZTC_RETURN_IF_ERROR(introduce());

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
  settings.saveEvery = options_.saveEvery;
  settings.evalEvery = options_.evalEvery;
  LoopHooks hooks;
  hooks.save = [this](const LoopPosition &position) { return save(position); };
  if (!options_.dumpGradients.empty())
    hooks.dumpGradients = [this] { return dumpGradients(session_->state(), options_.dumpGradients, 1.0f); };

  LoopPosition position;
  if (resumed_)
    position = {resumed_->state.step, resumed_->state.adamCount, data_->position(resumed_->state.cursor)};
  uint64_t steps = settings.stopAt - std::min(settings.stopAt, position.step);
  ZTC_ASSIGN_OR_RETURN(Observation observation, Observation::begin(options_, *session_, steps));
  hooks.afterStep = observation.afterStep();
  ZTC_ASSIGN_OR_RETURN(StepRunner runner, StepRunner::create(session_->plan(), session_->executor()));
  RowSource &rows = dataRows ? static_cast<RowSource &>(*dataRows) : randomRows;
  TrainingLoop loop(session_->plan(), runner, rows, evaluation, settings, hooks, log_, progress_);
  ZTC_ASSIGN_OR_RETURN(LoopEnd end, loop.run(position));
  progress_.finishLine();
  ZTC_RETURN_IF_ERROR(observation.end(screen_.out, log_));
  ZTC_RETURN_IF_ERROR(finish(end, position));
  switch (end) {
  case LoopEnd::Finished:
    return RunEnd::Done;
  case LoopEnd::Signalled:
    progress_.note(fmt::format("stopped by {} after {} of {} steps{}", stopSignalName(stopSignal()), position.step,
                               facts_.steps,
                               saved_ ? fmt::format("; go on with --resume {}", parentFolder(saved_->second)) : ""));
    return RunEnd::Stopped;
  case LoopEnd::Diverged:
    break;
  }
  progress_.finishLine();
  return failedPrecondition(
      fmt::format("step {}: the gradient norm is not finite, the run has diverged{}; try a smaller "
                  "--lr or a longer --warmup",
                  position.step, saved_ ? fmt::format(" (the weights before it are in {})", saved_->second) : ""));
}

StatusOr<RunEnd> Run::generate(LoadedPlan loaded, std::unique_ptr<Device> device) {
  ZTC_ASSIGN_OR_RETURN(session_, Session::open(std::move(loaded), std::move(device), {}));
  ZTC_RETURN_IF_ERROR(loadModel());
  fmt::print(screen_.out, "{}", *options_.prompt);
  ZTC_RETURN_IF_ERROR(
      generateText(session_->plan(), session_->executor(), *options_.prompt, *options_.generate, [this](char c) {
        std::fputc(c, screen_.out);
        std::fflush(screen_.out);
      }));
  return stopSignal() ? RunEnd::Stopped : RunEnd::Done;
}

} // namespace

StatusOr<RunEnd> runPlan(const RunOptions &options, LoadedPlan loaded, std::unique_ptr<Device> device,
                         const RunScreen &screen) {
  Run run(options, screen);
  return options.trains() ? run.train(std::move(loaded), std::move(device))
                          : run.generate(std::move(loaded), std::move(device));
}

} // namespace ztc
