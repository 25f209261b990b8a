// From options to a model in memory: what is resumed, the batch, data, outputs, session and weights.
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Checkpoint/Weights.h"
#include "runtime/Collective/Communicator.h"
#include "runtime/Core/File.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Format/UpdateTime.h"
#include "runtime/Ranks/Agreement.h"
#include "runtime/Train/OutputFiles.h"
#include "runtime/Train/RunStages.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace ztc {

/// What a trial uses where the plan's weights are not at hand.
static constexpr double kTrialDeviation = 0.02;

Status RunStages::findResume() {
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
  keepRates(options_, state.settings);
  facts_.seed = options_.seed.value_or(state.seed);
  facts_.shuffle = options_.shuffle || state.shuffle;
  if (facts_.seed != state.seed || facts_.shuffle != state.shuffle)
    facts_.differs.push_back(fmt::format("rows come in another order (seed {}{}, it was {}{})", facts_.seed,
                                         facts_.shuffle ? ", shuffled" : "", state.seed,
                                         state.shuffle ? ", shuffled" : ""));
  facts_.firstStep = state.step;
  return Status::ok();
}

Status RunStages::chooseBatch(const plan::Plan &plan) {
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
  if (accumulate_ > 1 && updatesInBackward(plan))
    return failedPrecondition(
        fmt::format("--resume: the run has global batches of {} rows, {} micro-steps of {}, and {} "
                    "was compiled with --update=in-backward, of one micro-step: compile with a "
                    "larger --batch, or without it",
                    wanted, accumulate_, split, options_.plan));
  if (accumulate_ > UINT32_MAX)
    return failedPrecondition(fmt::format("--resume: {} micro-steps are too many", accumulate_));
  return Status::ok();
}

StatusOr<std::unique_ptr<DataSet>> RunStages::openData(const plan::Plan &plan, const std::vector<std::string> &files,
                                                       bool shuffle) {
  return DataSet::open({.files = files,
                        .bytesTokenizer = options_.tokenizer == "bytes",
                        .tokenBytes = options_.tokenBytes.value_or(0),
                        .shuffle = shuffle,
                        .seed = facts_.seed,
                        .seq = plan.model().seq(),
                        .vocabulary = plan.model().vocabulary(),
                        .text = textOptions(options_, tokenizer_, control_, progress_),
                        .pack = plan.bindings().has_document_starts(),
                        .dropLong = options_.longDocuments == "drop",
                        .documentEnd = options_.documentEnd});
}

/// Weights that the plan would pass over.
static Status checkWeights(const plan::Plan &plan, const DataSet &data, const std::string &option) {
  const std::optional<std::string> file = data.fileWithWeights();
  if (!file || plan.bindings().has_loss_weights())
    return Status::ok();
  return invalidArgument(fmt::format("{}: '{}' has loss_weights, and the plan takes none: compile it with "
                                     "--loss-weights, or take the tensor out of the file",
                                     option, *file));
}

/// Targets that all are -100 are seen before the first step, not after the last.
static Status checkTargets(const DataSet &data, const std::vector<std::string> &files, const std::string &option) {
  ZTC_ASSIGN_OR_RETURN(const bool counted, data.hasCountedTarget());
  const char *ignored = data.fileWithWeights() ? "all labels are -100, which stands for `ignored`, or have a weight "
                                                 "of 0 in loss_weights"
                                               : "all labels are -100, which stands for `ignored`";
  return counted ? Status::ok()
                 : invalidArgument(fmt::format("{}: no row of '{}'{} has a target that counts: {}", option, files[0],
                                               files.size() > 1 ? " and the other files" : "", ignored));
}

Status RunStages::openAllData(const plan::Plan &plan) {
  facts_.steps = options_.steps.value_or(kTrialSteps);
  if (options_.isTrial())
    return Status::ok();
  uint64_t globalBatch = ranks_.world() * accumulate_ * plan.model().batch();
  control_.progress().enterPhase("reading data");
  ZTC_ASSIGN_OR_RETURN(tokenizer_, openTokenizer(options_));
  ZTC_ASSIGN_OR_RETURN(data_, openData(plan, options_.data, facts_.shuffle));
  ZTC_RETURN_IF_ERROR(data_->checkGlobalBatch(globalBatch));
  const uint64_t scanned = ranks_.isFirst() ? options_.scanBytes : 0; // one rank is enough
  ZTC_RETURN_IF_ERROR(checkWeights(plan, *data_, "--data"));
  ZTC_RETURN_IF_ERROR(data_->checkRows(scanned));
  ZTC_RETURN_IF_ERROR(checkTargets(*data_, options_.data, "--data"));
  facts_.rows = data_->rows();
  facts_.packing = data_->packing();
  if (options_.epochs)
    facts_.steps = uint64_t(std::ceil(*options_.epochs * double(facts_.rows) / double(globalBatch)));
  if (facts_.firstStep > facts_.steps)
    return invalidArgument(
        fmt::format("--resume: {} has done {} steps, {} asks for {} in all: give the number that the "
                    "run is to have at its end",
                    resumed_->path, facts_.firstStep, options_.epochs ? "--epochs" : "--steps", facts_.steps));
  return openHeldOut(plan);
}

Status RunStages::openHeldOut(const plan::Plan &plan) {
  const uint64_t scanned = ranks_.isFirst() ? options_.scanBytes : 0; // one rank is enough
  for (EvaluationFiles &set : evaluationFiles(options_.evalData)) {
    const std::string option = set.name.empty() ? "--eval-data" : fmt::format("--eval-data {}", set.name);
    auto opened = openData(plan, set.files, false);
    if (!opened.isOk())
      return opened.status().withContext(option);
    ZTC_RETURN_IF_ERROR(checkWeights(plan, **opened, option));
    ZTC_RETURN_IF_ERROR((*opened)->checkRows(scanned).withContext(option));
    ZTC_RETURN_IF_ERROR(checkTargets(**opened, set.files, option));
    heldOut_.push_back({std::move(set), std::move(*opened)});
  }
  return Status::ok();
}

DocumentBounds RunStages::documentBounds(const plan::Plan &plan) const {
  if (!plan.bindings().has_document_starts())
    return {};
  DocumentBounds bounds = data_ ? data_->documentBounds() : DocumentBounds();
  for (const HeldOut &set : heldOut_)
    bounds = bounds.join(set.data->documentBounds());
  // Rows of one document: random ones, those of questions, and text that is gone on with.
  const bool hasOthers = !questions_.empty() || options_.sampleEvery || options_.generate;
  return bounds.most && !hasOthers ? bounds : bounds.join({1, plan.model().seq()});
}

std::vector<EvaluationSet> RunStages::evaluationSets() {
  heldOutRows_.clear();
  for (const HeldOut &set : heldOut_)
    heldOutRows_.emplace_back(*set.data);
  std::vector<EvaluationSet> sets;
  for (size_t i = 0; i < heldOut_.size(); ++i)
    sets.push_back({heldOut_[i].files.name, &heldOutRows_[i], heldOut_[i].data->rows()});
  return sets;
}

Status RunStages::prepareOutput(const plan::Plan &plan) {
  const uint64_t end = std::min(options_.stopAfter.value_or(facts_.steps), facts_.steps);
  ZTC_RETURN_IF_ERROR(output_.prepare(plan, resumed_, end - std::min(end, facts_.firstStep)));
  facts_.run = output_.run();
  ZTC_RETURN_IF_ERROR(
      agree(&control_, "output files", ranks_.isFirst() ? checkOutputFiles(options_, plan) : Status::ok()));
  ZTC_RETURN_IF_ERROR(output_.openLog(log_));
  Status opened;
  if (ranks_.isFirst() && !options_.tensorboard.empty())
    opened = events_.open(options_.tensorboard, output_.run(), options_.overwrite);
  return agree(&control_, "event file", opened);
}

/// Plan, memory and algorithms; `tuneSeconds`: that measuring these may take.
Status RunStages::openSession(LoadedPlan loaded, std::unique_ptr<Device> device, PlanShape shape, double tuneSeconds) {
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
  const DocumentBounds documents = documentBounds(loaded.plan);
  ZTC_ASSIGN_OR_RETURN(
      session_, Session::open(std::move(loaded), std::move(device), shape, ranks_, algorithms,
                              {.folder = options_.disk, .run = facts_.run, .engine = options_.diskEngine}, documents));
  if (options_.poison && !session_->shape().threads)
    return invalidArgument("--poison is for CPU ranks: give --device=cpu");
  if (options_.poison)
    ZTC_RETURN_IF_ERROR(session_->executor().poisonDeadSlots());
  for (const std::string &note : session_->algorithms().notes)
    progress_.note(note);
  if (!session_->algorithms().differs.empty())
    facts_.differs.push_back(session_->algorithms().differs);
  return Status::ok();
}

Status RunStages::loadResumed() {
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

Status RunStages::loadModel() {
  control_.progress().enterPhase("loading");
  // Beside an adapter a checkpoint leaves the model where it is.
  if (resumed_ && !trainsAdapter(session_->plan()))
    return loadResumed();
  WeightOptions weights;
  weights.weights = options_.weights;
  weights.adapter = options_.adapter;
  weights.seed = facts_.seed;
  weights.planFolder = parentFolder(options_.plan);
  const uint32_t threads = session_->shape().threads;
  weights.threads = threads ? threads : availableCores(); // a GPU has none that it computes with
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
  if (!known.isOk() && options_.isTrial() && options_.weights.empty() && options_.adapter.empty()) {
    // A trial measures memory and speed: it does not need the real ones.
    weights.initDeviation = kTrialDeviation;
    facts_.weights = fmt::format("random, normal:{} ({})", kTrialDeviation, known.message());
    known = Status::ok();
  }
  ZTC_RETURN_IF_ERROR(known);
  ZTC_RETURN_IF_ERROR(loadWeights(session_->state(), weights));
  output_.exported().frozen = weights;
  if (trainsAdapter(session_->plan())) { // once: it looks into every tensor of the model
    if (options_.init.empty())
      weights.initDeviation.reset(); // weights that nobody gave are told in words
    const StatusOr<std::string> base = describeFrozenModel(session_->plan(), weights);
    baseModel_ = base.isOk() ? *base : facts_.weights;
  }
  return resumed_ ? loadResumed() : Status::ok();
}

std::map<std::string, std::string> RunStages::environment() const {
  const auto &options = session_->plan().options();
  const auto state = options.find("optimizer-state"), masters = options.find("master");
  std::map<std::string, std::string> found{{"ztc", session_->plan().ztc_version()},
                                           {"device", session_->device().description()},
                                           {"threads", std::to_string(session_->shape().threads)},
                                           {"world", std::to_string(session_->shape().world)},
                                           {"communicator", ranks_.communicator ? ranks_.communicator->name() : "none"},
                                           {"plan", session_->planSha256()},
                                           {"precision", session_->plan().precision()},
                                           {"optimizer", optimizerName(session_->plan())},
                                           {"optimizer state", state != options.end() ? state->second : "fp32"},
                                           {"masters", masters != options.end() ? masters->second : "fp32"},
                                           {"ZeRO stage", std::to_string(session_->plan().zero())},
                                           {"data", data_ ? data_->fingerprint() : "random tokens"}};
  if (!baseModel_.empty())
    found["base model"] = baseModel_;
  return found;
}

/// That of the checkpoint, where it is of a run in fp16: --loss-scale is of a run's first step.
LossScale RunStages::firstLossScale() const {
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

/// What the checkpoint does not know is found as at the begin of a run; of a run in another precision all.
Status RunStages::restoreFp8Maxima() {
  if (!resumed_ || runner_->fp8Matrices() == 0)
    return Status::ok();
  ZTC_ASSIGN_OR_RETURN(const uint64_t known, runner_->setFp8Maxima(resumed_->state.fp8Maxima));
  if (known < runner_->fp8Matrices())
    progress_.note(fmt::format("the checkpoint does not know the absolute maxima of {} of {} matrices in fp8: their "
                               "scales are found anew",
                               runner_->fp8Matrices() - known, runner_->fp8Matrices()));
  return Status::ok();
}

SpikeGuard RunStages::firstGuard() const {
  SpikeGuard guard;
  guard.sigma = options_.skipSpikes.value_or(0);
  if (!resumed_)
    return guard;
  for (float norm : resumed_->state.gradientNorms)
    guard.add(norm);
  guard.droppedInARow = std::min(resumed_->state.droppedInARow, SpikeGuard::kMostInARow - 1);
  return guard;
}

void RunStages::introduce() {
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
  if (!options_.deterministic && !session_->shape().threads)
    progress_.note(
        "--deterministic=no: attention's gradient by cuDNN adds up in whatever order comes first: a run that is "
        "repeated, resumed or spread over other ranks does not have the same bits");
  for (const std::string &difference : facts_.differs)
    progress_.note("differs from the checkpoint: " + difference);
  if (log_.isOpen())
    log_.write(headerJson(options_, *session_, facts_));
  if (log_.isOpen() && options_.restartsDone) {
    JsonObject line;
    line.begin().add("event", "restart").add("restarts", uint64_t(options_.restartsDone)).add("step", facts_.firstStep);
    log_.write(line.add("world", uint64_t(session_->shape().world)).end());
  }
}

} // namespace ztc
