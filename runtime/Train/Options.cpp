#include "runtime/Train/Options.h"
#include "runtime/Format/UpdateTime.h"
#include "runtime/Train/EvaluationFiles.h"
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <span>
#include <utility>

namespace ztc {

StatusOr<double> parseInit(const std::string &init) {
  static constexpr std::string_view kPrefix = "normal:";
  double deviation = 0;
  const char *end = init.data() + init.size();
  if (init.starts_with(kPrefix)) {
    auto [stop, error] = std::from_chars(init.data() + kPrefix.size(), end, deviation);
    if (error == std::errc() && stop == end && std::isfinite(deviation) && deviation >= 0)
      return deviation;
  }
  return invalidArgument(fmt::format("--init: expected normal:STD such as normal:0.02, found '{}'", init));
}

namespace {

/// `option` was given although `partner`, without which nothing sees it, was not.
struct Dependency {
  bool given;
  const char *option;
  bool partnerGiven;
  const char *partner;
  std::string text() const { return fmt::format("{} has no effect without {}", option, partner); }
};

/// What was asked for would not happen: no checkpoint, no evaluation, other text.
Status checkDependencies(const RunOptions &o) {
  const std::array dependencies{
      Dependency{!o.evalChoices.empty(), "--eval-choices", o.evalOnly, "--eval-only"},
      Dependency{o.epochs.has_value(), "--epochs", !o.data.empty(), "--data"},
      Dependency{!o.resume.empty(), "--resume", !o.data.empty(), "--data"},
      Dependency{!o.save.empty(), "--save", !o.data.empty(), "--data"},
      Dependency{!o.exportFolder.empty(), "--export", !o.data.empty(), "--data"},
      Dependency{!o.evalData.empty(), "--eval-data", !o.data.empty() || o.evalOnly, "--data or --eval-only"},
      Dependency{o.evalEvery.has_value(), "--eval-every", !o.evalData.empty(), "--eval-data"},
      Dependency{o.evalOnly, "--eval-only", !o.evalData.empty() || !o.evalChoices.empty(),
                 "--eval-data or --eval-choices"},
      Dependency{o.patience.has_value(), "--patience", o.evalEvery.has_value(), "--eval-every"},
      Dependency{o.saveEvery.has_value(), "--save-every", !o.save.empty(), "--save"},
      Dependency{o.savePeriodSeconds.has_value(), "--save-period", !o.save.empty(), "--save"},
      Dependency{o.restarts.has_value(), "--restarts", !o.save.empty(), "--save"},
      Dependency{o.keepBest, "--keep-best", !o.save.empty(), "--save"},
      Dependency{o.keepBest, "--keep-best", !o.evalData.empty(), "--eval-data"},
      Dependency{o.prompt.has_value(), "--prompt", o.generate.has_value(), "--generate"},
      Dependency{!o.promptFile.empty(), "--prompts", o.generate.has_value(), "--generate"},
      Dependency{o.generate.has_value(), "--generate", o.prompt || !o.promptFile.empty(), "--prompt"},
      Dependency{o.sampleEvery.has_value(), "--sample-every", !o.data.empty(), "--data"},
      Dependency{o.sampleEvery.has_value(), "--sample-every", !o.samplePrompts.empty(), "--sample-prompt"},
      Dependency{!o.samplePrompts.empty(), "--sample-prompt", o.sampleEvery.has_value(), "--sample-every"},
      Dependency{o.sampleTokens.has_value(), "--sample-tokens", o.sampleEvery.has_value(), "--sample-every"},
      Dependency{(o.generate || o.sampleEvery) && o.topK, "--top-k", o.temperature > 0.0, "--temperature"},
      Dependency{(o.generate || o.sampleEvery) && o.topP, "--top-p", o.temperature > 0.0, "--temperature"},
      Dependency{o.nodeRank.has_value(), "--node-rank", o.nodes.has_value(), "--nodes"},
  };
  for (const Dependency &d : dependencies)
    if (d.given && !d.partnerGiven)
      return invalidArgument(d.text());
  return Status::ok();
}

Status checkConflicts(const RunOptions &o) {
  const std::pair<bool, const char *> conflicts[]{
      {o.gpus && o.ranks, "--gpus and --ranks cannot be used together: --ranks counts CPU ranks"},
      {o.gpus && (o.device == "cpu" || o.device == "host"), "--gpus and --device=cpu cannot be used together"},
      {o.ranks && o.device == "cuda", "--ranks counts CPU ranks: with --device=cuda give --gpus"},
      {o.poison && wantsGpus(o), "--poison is for CPU ranks: leave --gpus and --device=cuda out"},
      {o.steps && o.epochs, "--steps and --epochs cannot be used together"},
      {o.evalOnly && !o.data.empty(), "--eval-only trains nothing: leave --data out"},
      {!o.data.empty() && !o.steps && !o.epochs, "--data needs --steps N or --epochs E"},
      {o.noSave && !o.save.empty(), "--no-save and --save cannot be used together"},
      {!o.weights.empty() && !o.init.empty(), "--weights and --init cannot be used together"},
      {o.generate && !o.data.empty(), "--generate writes text instead of training: leave --data out"},
      {o.generate && o.steps, "--generate writes text instead of training: leave --steps out"},
      {o.evalOnly && (o.steps || o.epochs), "--eval-only trains nothing: leave --steps and --epochs out"},
      {o.evalOnly && o.generate, "--eval-only and --generate cannot be used together"},
      {o.evalOnly && o.evalEvery, "--eval-every has no effect with --eval-only"},
      {o.evalOnly && o.accumulate, "--accumulate has no effect with --eval-only"},
      {o.evalOnly && !o.dumpGradients.empty(), "--dump-gradients has no effect with --eval-only"},
      {o.evalOnly && !o.profile.empty(), "--profile has no effect with --eval-only"},
      {o.evalOnly && !o.trace.empty(), "--trace has no effect with --eval-only"},
      {o.prompt && !o.promptFile.empty(), "--prompt and --prompts cannot be used together"},
  };
  for (const auto &[bad, message] : conflicts)
    if (bad)
      return invalidArgument(message);
  return Status::ok();
}

/// As `ztc memory --accumulate` takes them.
constexpr uint64_t kMostMicroSteps = 1 << 20;

Status checkRanges(const RunOptions &o) {
  auto zero = [](const std::optional<uint64_t> &value) { return value && *value == 0; };
  const std::pair<bool, const char *> bad[]{
      {zero(o.gpus), "--gpus: at least 1"},
      {zero(o.ranks), "--ranks: at least 1"},
      {zero(o.threads), "--threads: at least 1"},
      {zero(o.nodes), "--nodes: at least 1"},
      {o.nodeRank && o.nodes && *o.nodeRank >= *o.nodes, "--node-rank: less than --nodes"},
      {zero(o.steps), "--steps: at least 1"},
      {o.epochs && !(*o.epochs > 0 && *o.epochs <= 1e9), "--epochs: more than 0, at most 1e9"},
      {zero(o.accumulate) || o.accumulate > kMostMicroSteps, "--accumulate: 1 to 1048576"},
      {!(o.learningRate >= 0 && std::isfinite(o.learningRate)), "--lr: a finite number, not negative"},
      {o.minLrRatio && !(*o.minLrRatio >= 0 && *o.minLrRatio <= 1), "--min-lr-ratio: between 0 and 1"},
      {!(o.optimizer.beta1 >= 0 && o.optimizer.beta1 < 1), "--beta1: at least 0 and less than 1"},
      {!(o.optimizer.beta2 >= 0 && o.optimizer.beta2 < 1), "--beta2: at least 0 and less than 1"},
      {!(o.optimizer.momentum >= 0 && o.optimizer.momentum < 1), "--momentum: at least 0 and less than 1"},
      {!(o.optimizer.epsilon >= 0 && std::isfinite(o.optimizer.epsilon)), "--epsilon: a finite number, not negative"},
      {!(o.optimizer.weightDecay >= 0 && std::isfinite(o.optimizer.weightDecay)),
       "--weight-decay: a finite number, not negative"},
      {o.lossScale && !(*o.lossScale > 0 && std::isfinite(*o.lossScale) &&
                        std::exp2(std::round(std::log2(*o.lossScale))) == *o.lossScale),
       "--loss-scale: a power of two"},
      {o.skipSpikes && !(*o.skipSpikes >= 1 && *o.skipSpikes <= 1e6),
       "--skip-spikes: 1 to 1e6 deviations over the mean of the last gradient norms; 6 is usual"},
      {!(o.timeoutSeconds >= 0.1 && o.timeoutSeconds <= 1e9), "--timeout: 0.1 to 1e9 seconds"},
      {zero(o.evalEvery), "--eval-every: at least 1"},
      {zero(o.patience), "--patience: at least 1"},
      {zero(o.sampleEvery), "--sample-every: at least 1"},
      {zero(o.sampleTokens), "--sample-tokens: at least 1"},
      {std::ranges::any_of(o.samplePrompts, &std::string::empty), "--sample-prompt: at least one byte"},
      {zero(o.logEvery), "--log-every: at least 1"},
      {zero(o.saveEvery), "--save-every: at least 1"},
      {zero(o.shardBytes), "--shard-size: more than 0, e.g. 5GB"},
      {zero(o.keep), "--keep: at least 1"},
      {zero(o.restarts) || o.restarts > 1'000'000, "--restarts: 1 to 1000000"},
      {zero(o.stopAfter), "--stop-after: at least 1"},
      {o.stopAfter && o.steps && *o.stopAfter > *o.steps, "--stop-after: at most --steps"},
      {zero(o.generate), "--generate: at least 1"},
      {o.prompt && o.prompt->empty(), "--prompt: at least one byte"},
      {o.temperature && !(*o.temperature >= 0 && std::isfinite(*o.temperature)),
       "--temperature: a finite number, not negative; 0 takes the likeliest token"},
      {zero(o.topK), "--top-k: at least 1"},
      {o.topP && !(*o.topP > 0 && *o.topP <= 1), "--top-p: more than 0, at most 1"},
      {!o.profile.empty() && o.profile != "kernels" && o.profile != "steps", "--profile: kernels or steps"},
      {o.tokenBytes && *o.tokenBytes != 2 && *o.tokenBytes != 4, "--token-bytes: 2 or 4"},
      {!o.longDocuments.empty() && o.longDocuments != "cut" && o.longDocuments != "drop", "--long: cut or drop"},
  };
  for (const auto &[wrong, message] : bad)
    if (wrong)
      return invalidArgument(message);
  for (const std::string &value : o.evalData)
    if (value.empty() || value.ends_with('='))
      return invalidArgument(fmt::format("--eval-data: '{}' names no file: expected FILE or NAME=FILE", value));
  if (auto watched = watchedEvaluation(evaluationFiles(o.evalData), o.keepBestOf); !watched.isOk())
    return watched.status();
  if (!o.init.empty())
    if (auto deviation = parseInit(o.init); !deviation.isOk())
      return deviation.status();
  return Status::ok();
}

} // namespace

Status checkOptions(const RunOptions &options) {
  ZTC_RETURN_IF_ERROR(checkRanges(options));
  ZTC_RETURN_IF_ERROR(checkConflicts(options));
  return checkDependencies(options);
}

namespace {

/// What only a run that trains looks at, and is not said elsewhere.
constexpr const char *kTrainingOptions[] = {
    "--lr",       "--schedule", "--warmup",       "--min-lr-ratio", "--beta1",       "--beta2",     "--epsilon",
    "--momentum", "--nesterov", "--weight-decay", "--clip",         "--skip-spikes", "--stop-after"};
/// What generation does not look at, beside those.
constexpr const char *kOptionsWithoutText[] = {"--accumulate", "--log-json", "--tensorboard", "--dump-gradients",
                                               "--profile",    "--trace",    "--overwrite"};

/// Options that were given and are not looked at by what the run does instead of training.
void addUnusedInsteadOfTraining(const RunOptions &o, std::vector<std::string> &unused) {
  if (!o.evalOnly && !o.generate)
    return;
  const auto add = [&](std::span<const char *const> names) {
    for (const char *name : names)
      if (o.given.contains(name))
        unused.push_back(fmt::format("{} has no effect with {}", name, o.generate ? "--generate" : "--eval-only"));
  };
  add(kTrainingOptions);
  if (o.generate)
    add(kOptionsWithoutText);
}

/// What an optimizer that is built in takes beside rate, decay and clipping.
struct OptimizerOptions {
  std::string_view name;
  std::span<const char *const> options;
};
constexpr const char *kAdamwOptions[] = {"--beta1", "--beta2", "--epsilon"};
constexpr const char *kLionOptions[] = {"--beta1", "--beta2"};
constexpr const char *kSgdOptions[] = {"--momentum", "--nesterov"};
constexpr const char *kMuonOptions[] = {"--momentum", "--beta1", "--beta2", "--epsilon"}; // adamw has its part
constexpr OptimizerOptions kOptimizers[] = {
    {"adamw", kAdamwOptions}, {"lion", kLionOptions}, {"muon", kMuonOptions}, {"sgd", kSgdOptions}};

/// Options that were given and are another optimizer's. What one of a plugin reads nobody knows.
void addOtherOptimizers(const RunOptions &o, const plan::Plan &plan, std::vector<std::string> &unused) {
  const std::string optimizer = optimizerName(plan);
  const auto own = std::ranges::find(kOptimizers, std::string_view(optimizer), &OptimizerOptions::name);
  if (own == std::end(kOptimizers))
    return;
  std::set<std::string> others;
  for (const OptimizerOptions &other : kOptimizers)
    others.insert(other.options.begin(), other.options.end());
  for (const std::string &option : others)
    if (o.given.contains(option) && std::ranges::find(own->options, option) == own->options.end())
      unused.push_back(fmt::format("{} has no effect: {} was compiled with --optimizer={}", option, o.plan, optimizer));
}

/// Periods and warm-up that are longer than the run: what they ask for never comes.
void addUnreached(const RunOptions &o, std::vector<std::string> &unused) {
  if (!o.steps || o.evalOnly || o.generate)
    return;
  const std::pair<std::optional<uint64_t>, const char *> periods[]{
      {o.evalEvery, "--eval-every={} has no effect in a run of {} steps: it evaluates at its end only"},
      {o.saveEvery, "--save-every={} has no effect in a run of {} steps: it saves at its end only"},
      {o.sampleEvery, "--sample-every={} has no effect in a run of {} steps: samples come at its end only"},
  };
  for (const auto &[period, sentence] : periods)
    if (period && *period > *o.steps)
      unused.push_back(fmt::format(fmt::runtime(sentence), *period, *o.steps));
  if (o.warmup > *o.steps)
    unused.push_back(fmt::format("--warmup={} is longer than the run of {} steps: the learning rate never reaches --lr",
                                 o.warmup, *o.steps));
  const uint64_t evaluations = o.evalEvery ? (*o.steps + *o.evalEvery - 1) / *o.evalEvery : 0;
  if (o.patience && *o.patience >= evaluations)
    unused.push_back(fmt::format("--patience={} has no effect: a run of {} steps is evaluated {} times", *o.patience,
                                 *o.steps, evaluations));
}

} // namespace

std::string optimizerName(const plan::Plan &plan) {
  const auto name = plan.options().find("optimizer");
  return name == plan.options().end() || name->second.empty() ? "adamw" : name->second;
}

Status checkUpdateTime(const RunOptions &o, const plan::Plan &plan) {
  if (!o.trains())
    return Status::ok();
  const std::string clip = fmt::format("--clip={}", clipText(o.optimizer.clipBy, o.optimizer.clip));
  if (!updatesInBackward(plan)) {
    if (o.optimizer.clipBy == ClipBy::Norm)
      return Status::ok();
    return invalidArgument(
        fmt::format("{}: {} updates after the backward, where the norm of all gradients is known: give "
                    "--clip={}, or compile with --update=in-backward",
                    clip, o.plan, o.optimizer.clip));
  }
  const std::string reason = fmt::format("{} was compiled with --update=in-backward, ", o.plan);
  if (o.accumulate.value_or(1) > 1)
    return invalidArgument(
        fmt::format("--accumulate={}: {}so a step is one micro-step: compile with a larger --batch, or "
                    "take more ranks",
                    *o.accumulate, reason));
  if (o.optimizer.clipBy == ClipBy::Norm && o.optimizer.clip > 0)
    return invalidArgument(
        fmt::format("{}{}: {}where the norm of all gradients is not known before the first update: give "
                    "--clip=0, --clip=block (each bucket's own norm) or --clip=previous (the norm of "
                    "the step before)",
                    clip, o.given.contains("--clip") ? "" : " (the default)", reason));
  if (o.skipSpikes)
    return invalidArgument(fmt::format("--skip-spikes: {}where the norm of all gradients is not known before the first "
                                       "update: leave it out",
                                       reason));
  if (!o.dumpGradients.empty())
    return invalidArgument(
        fmt::format("--dump-gradients: {}where gradients never exist all at once: compile without it", reason));
  return Status::ok();
}

Method methodOf(const RunOptions &options, const plan::Plan &plan) {
  if (!plan.adapter_config().empty())
    return Method::Adapter;
  if (!options.init.empty())
    return Method::Fresh;
  const auto isStored = [](const plan::Parameter &parameter) { return !parameter.source().path().empty(); };
  return !options.weights.empty() || std::ranges::any_of(plan.parameters(), isStored) ? Method::Loaded : Method::Fresh;
}

const MethodDefaults &defaultsOf(Method method) {
  static constexpr MethodDefaults kFresh{"fresh weights", 3e-4, 0.1, 0},
      kLoaded{"loaded weights, all trained", 2e-5, 0, 0.03}, kAdapter{"adapters beside a frozen model", 2e-4, 0, 0.03};
  return method == Method::Fresh ? kFresh : method == Method::Loaded ? kLoaded : kAdapter;
}

RunOptions withDefaults(RunOptions options, const plan::Plan &plan) {
  const std::string optimizer = optimizerName(plan);
  const MethodDefaults &usual = defaultsOf(methodOf(options, plan));
  auto otherwise = [&](const char *option, double &value, double standard) {
    if (!options.given.contains(option))
      value = standard;
  };
  otherwise("--lr", options.learningRate, usual.learningRate);
  otherwise("--weight-decay", options.optimizer.weightDecay, optimizer == "sgd" ? 0 : usual.weightDecay);
  if (!options.given.contains("--warmup") && usual.warmupShare > 0)
    options.warmupShare = usual.warmupShare;
  if (optimizer == "lion")
    otherwise("--beta2", options.optimizer.beta2, 0.99);
  if (optimizer == "muon")
    otherwise("--momentum", options.optimizer.momentum, 0.95);
  return options;
}

void keepRates(RunOptions &options, const std::map<std::string, std::string> &settings) {
  const auto kept = [&]<typename Number>(const char *option, Number &value) {
    const auto found = settings.find(option);
    if (options.given.empty() || options.given.contains(option) || found == settings.end())
      return false;
    Number number{};
    const char *end = found->second.data() + found->second.size();
    const auto [stop, error] = std::from_chars(found->second.data(), end, number);
    if (error != std::errc() || stop != end)
      return false;
    value = number;
    return true;
  };
  kept("--lr", options.learningRate);
  kept("--weight-decay", options.optimizer.weightDecay);
  if (kept("--warmup", options.warmup))
    options.warmupShare.reset();
}

std::vector<std::string> unusedOptions(const RunOptions &o, const plan::Plan &plan) {
  std::vector<std::string> unused;
  const bool samples = o.generate || o.sampleEvery;
  const bool hasData = !o.data.empty(),
             hasExport = hasData && (!o.exportFolder.empty() || (!o.noSave && o.save.empty()));
  for (const Dependency &d : {
           Dependency{!o.tokenizer.empty(), "--tokenizer", hasData || o.evalOnly || o.generate,
                      "--data, --eval-only or --generate"},
           Dependency{o.tokenBytes.has_value(), "--token-bytes", hasData || o.evalOnly, "--data"},
           Dependency{o.shuffle, "--shuffle", hasData, "--data"},
           Dependency{!o.longDocuments.empty(), "--long", plan.bindings().has_document_starts(),
                      "a plan compiled with --pack"},
           Dependency{o.documentEnd.has_value(), "--document-end", plan.bindings().has_document_starts(),
                      "a plan compiled with --pack"},
           Dependency{o.keep.has_value(), "--keep", !o.save.empty(), "--save"},
           Dependency{o.logEvery.has_value(), "--log-every", !o.logJson.empty() || !o.tensorboard.empty(),
                      "--log-json or --tensorboard"},
           Dependency{o.temperature.has_value(), "--temperature", samples, "--generate or --sample-every"},
           Dependency{o.topK.has_value(), "--top-k", samples, "--generate or --sample-every"},
           Dependency{o.topP.has_value(), "--top-p", samples, "--generate or --sample-every"},
           Dependency{!o.exportDtype.empty(), "--export-dtype", hasExport, "an export"},
           Dependency{o.shardBytes.has_value(), "--shard-size", hasExport, "an export"},
           Dependency{!o.merge.empty(), "--merge", hasExport, "an export"},
           Dependency{!o.hfConfig.empty(), "--hf-config", hasExport || (hasData && !o.save.empty()),
                      "--export or --save"},
       })
    if (d.given && !d.partnerGiven)
      unused.push_back(d.text());
  const std::pair<bool, std::string> others[]{
      {!o.resume.empty() && !o.weights.empty(),
       "--weights has no effect with --resume: the checkpoint holds the weights"},
      {!o.resume.empty() && !o.init.empty(), "--init has no effect with --resume: the checkpoint holds the weights"},
      {!o.resume.empty() && !o.adapter.empty(),
       "--adapter has no effect with --resume: the checkpoint holds the adapter"},
      {!o.merge.empty() && plan.adapter_config().empty(),
       fmt::format("--merge has no effect: {} trains the whole model, which is exported", o.plan)},
      {o.minLrRatio && o.schedule == ScheduleKind::Constant, "--min-lr-ratio has no effect with --schedule=constant"},
      {o.lossScale && plan.precision() != "fp16",
       fmt::format("--loss-scale has no effect: {} was compiled with --precision={}, only fp16 scales the loss", o.plan,
                   plan.precision())},
  };
  for (const auto &[isUnused, sentence] : others)
    if (isUnused)
      unused.push_back(sentence);
  addUnusedInsteadOfTraining(o, unused);
  addOtherOptimizers(o, plan, unused);
  addUnreached(o, unused);
  return unused;
}

uint64_t warmupSteps(const RunOptions &options, uint64_t steps) {
  return options.warmupShare ? uint64_t(std::llround(*options.warmupShare * double(steps))) : options.warmup;
}

bool wantsGpus(const RunOptions &options) {
  return options.gpus || options.device == "cuda";
}

std::string defaultOutputFolder(const std::string &plan) {
  std::filesystem::path path(plan);
  if (path.extension() == ".bin")
    path.replace_extension();
  return path.string() + "-out";
}

} // namespace ztc
