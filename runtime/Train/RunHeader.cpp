#include "runtime/Train/RunHeader.h"
#include "runtime/Collective/Communicator.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Train/Progress.h"
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

namespace ztc {

namespace {

std::string classText(const std::array<uint64_t, kMemoryClassCount> &byClass) {
  std::string text;
  for (size_t i = 0; i < kMemoryClassCount; ++i)
    if (byClass[i])
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kMemoryClassNames[i], formatSize(byClass[i]));
  return text;
}

} // namespace

const char *scheduleName(ScheduleKind kind) {
  switch (kind) {
  case ScheduleKind::Cosine:
    return "cosine";
  case ScheduleKind::Linear:
    return "linear";
  case ScheduleKind::WarmupStableDecay:
    return "wsd";
  case ScheduleKind::Constant:
    break;
  }
  return "constant";
}

namespace {

/// What the ranks' devices can do together at the plan's precision; 0: unknown.
double peakOfRun(const Session &session) {
  return session.device().gauges().peakFlopsPerSecond(productType(session.plan())) * session.shape().world;
}

} // namespace

std::map<std::string, std::string> learningSettings(const RunOptions &options, uint64_t steps) {
  const OptimizerSettings &o = options.optimizer;
  std::map<std::string, std::string> settings{{"--steps", std::to_string(steps)},
                                              {"--schedule", scheduleName(options.schedule)},
                                              {"--warmup", std::to_string(warmupSteps(options, steps))}};
  const double minRatio = options.minLrRatio.value_or(kDefaultMinLrRatio);
  for (const auto &[name, value] :
       {std::pair("--lr", options.learningRate), std::pair("--min-lr-ratio", minRatio), std::pair("--beta1", o.beta1),
        std::pair("--beta2", o.beta2), std::pair("--epsilon", o.epsilon), std::pair("--momentum", o.momentum),
        std::pair("--weight-decay", o.weightDecay)})
    settings[name] = fmt::format("{}", value);
  settings["--clip"] = clipText(o.clipBy, o.clip);
  settings["--nesterov"] = o.nesterov ? "on" : "off";
  if (options.skipSpikes)
    settings["--skip-spikes"] = fmt::format("{}", *options.skipSpikes);
  return settings;
}

std::string communicatorText(const Session &session) {
  const Communicator *communicator = session.ranks().communicator;
  return communicator ? communicator->description() : "none";
}

// Model FLOPs utilization: the operations that the model asks for, without recomputation, against the peak (Chowdhery
// et al., PaLM, 2022, appendix B). What is unknown is left out.
std::string deviceText(const Session &session, double tokensPerSecond) {
  std::string text;
  const auto add = [&text](const std::string &part) { text += (text.empty() ? "" : "  ") + part; };
  const double peak = peakOfRun(session), flops = session.plan().model().flops_per_token();
  if (peak > 0 && flops > 0)
    add(fmt::format("MFU {:.1f} %", 100 * flops * tokensPerSecond / peak));
  const DeviceTelemetry now = session.device().gauges().telemetry();
  if (now.clockMhz)
    add(fmt::format("{} MHz", now.clockMhz));
  if (now.watts > 0)
    add(fmt::format("{:.0f} W", now.watts));
  if (now.celsius)
    add(fmt::format("{} C", now.celsius));
  return text;
}

/// What the plan reserves beside the arena, or the device's estimate.
static uint64_t reserveBytes(const Session &session) {
  const plan::Plan &plan = session.plan();
  return plan.has_reserve_bytes() ? plan.reserve_bytes()
                                  : session.device().memory().estimatedReserveBytes(session.shape().world);
}

/// "packed 120 documents, 10.2k tokens, 3.1 % padding; 2 longer than a row were cut".
static std::string packingText(const PackingSummary &packing, uint64_t seq) {
  std::string text = fmt::format("packed {} document{}, {} tokens, {:.1f} % padding", packing.documents,
                                 packing.documents == 1 ? "" : "s", humanCount(double(packing.places)),
                                 100 * packing.paddingShare(seq));
  if (const uint64_t many = packing.cut + packing.dropped)
    text += fmt::format("; {} longer than a row {} {}", many, many == 1 ? "was" : "were",
                        packing.dropped ? "dropped" : "cut into pieces");
  if (packing.empty)
    text += fmt::format("; {} with nothing to learn left out", packing.empty);
  return text;
}

/// "lr 2e-05, cosine, warm-up 3 of 100 steps, weight decay 0; by default for loaded weights, all trained: lr, warm-up".
static std::string ratesText(const RunOptions &options, const plan::Plan &plan, const RunFacts &facts) {
  std::string text = fmt::format("lr {:g}, {}, warm-up {} of {} steps, weight decay {:g}", options.learningRate,
                                 scheduleName(options.schedule), warmupSteps(options, facts.steps), facts.steps,
                                 options.optimizer.weightDecay);
  std::vector<const char *> usual;
  for (const auto &[option, name] :
       {std::pair("--lr", "lr"), std::pair("--warmup", "warm-up"), std::pair("--weight-decay", "weight decay")})
    if (!options.given.contains(option))
      usual.push_back(name);
  if (facts.firstStep)
    return usual.empty() ? text : text + fmt::format("; as before: {}", fmt::join(usual, ", "));
  if (!usual.empty())
    text += fmt::format("; by default for {}: {}", defaultsOf(methodOf(options, plan)).name, fmt::join(usual, ", "));
  return text;
}

/// A line for each space below the device's: "host    1.2 GiB predicted = allocated: optimizer 1.2 GiB".
static std::string lowerText(const Session &session) {
  const LowerMemory *lower = session.lower();
  if (!lower)
    return {};
  std::string text;
  const auto add = [&](const char *name, const LowerSpacePlan &space, const std::string &where) {
    if (space.bytes)
      text += fmt::format("{}  {} predicted = reserved{}{}: {}\n", name, formatSize(space.bytes),
                          session.shape().world > 1 ? " per rank" : "", where, classText(space.byClass));
  };
  add("host  ", session.memory().host, "");
  if (const DiskSpace *disk = lower->disk())
    add("disk  ", session.memory().disk, fmt::format(" in {} ({})", disk->path(), disk->description()));
  return text;
}

std::string headerText(const RunOptions &options, const Session &session, const RunFacts &facts) {
  const plan::Plan &plan = session.plan();
  const plan::Model &model = plan.model();
  std::string text = fmt::format("model   {}, {} parameters, {} x {} tokens a micro-batch, {}\n",
                                 model.name().empty() ? options.plan : model.name(),
                                 humanCount(double(model.parameters())), model.batch(), model.seq(), plan.precision());
  if (const std::string quantized = describeQuantized(plan); !quantized.empty())
    text += fmt::format("        {}\n", quantized);
  const uint32_t world = session.shape().world;
  text += fmt::format("memory  {} predicted = allocated{}: {}\n", formatSize(session.arena().bytes()),
                      world > 1 ? " per rank" : "", classText(session.memory().byClass));
  text += lowerText(session);
  const uint64_t reserve = reserveBytes(session);
  if (const uint64_t measured = session.device().memory().libraryBytes(); measured && reserve)
    text += fmt::format("reserve {} measured so far, {} estimated\n", formatSize(measured), formatSize(reserve));
  text += fmt::format("device  {}\n", session.device().description());
  if (!session.algorithms().choices.key.empty())
    text += fmt::format("library {}\n", session.algorithms().text());
  if (world > 1)
    text +=
        fmt::format("ranks   {}{}, ZeRO-{}, accumulate {}, {}\n", world,
                    session.shape().threads ? fmt::format(" x {} threads", session.shape().threads) : ", a GPU each",
                    plan.zero(), session.shape().accumulate, communicatorText(session));
  text += fmt::format("weights {}\n", facts.weights);
  if (options.trains())
    text += fmt::format("rates   {}\n", ratesText(options, plan, facts));
  if (options.isTrial())
    text += "data    none: a trial run on random tokens, nothing is saved\n";
  else if (options.evalOnly)
    text += "data    held-out data only: nothing is trained, nothing is saved\n";
  else
    text += fmt::format("data    {} rows of {} tokens, {} rows a step\n", facts.rows, model.seq(),
                        model.batch() * session.shape().accumulate * session.shape().world);
  if (facts.packing)
    text += fmt::format("        {}\n", packingText(*facts.packing, model.seq()));
  if (facts.firstStep)
    text += fmt::format("resumed after {} of {} steps\n", facts.firstStep, facts.steps);
  text.pop_back();
  return text;
}

/// The checkpoint that a plan was compiled with (--weights): a file, or the folder of several; "" for none.
static std::string baseOf(const plan::Plan &plan) {
  const auto given = plan.options().find("weights");
  if (given == plan.options().end() || given->second.empty())
    return {};
  std::set<std::string> files, folders;
  for (const plan::Parameter &parameter : plan.parameters())
    if (const std::string &path = parameter.source().path(); !path.empty()) {
      files.insert(path);
      folders.insert(parentFolder(path));
    }
  return files.size() == 1 ? *files.begin() : folders.size() == 1 ? *folders.begin() : std::string();
}

std::string runRecord(const Session &session, const std::string &run, uint64_t steps) {
  nlohmann::ordered_json record = {
      {"run", run}, {"steps", steps}, {"plan_sha256", session.planSha256()}, {"ztc", session.plan().ztc_version()}};
  if (const std::string base = baseOf(session.plan()); !base.empty())
    record["base"] = base; // `ztc export` asks it what the graph's exporter folded and joined
  return record.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string headerJson(const RunOptions &options, const Session &session, const RunFacts &facts) {
  const plan::Plan &plan = session.plan();
  nlohmann::ordered_json byClass;
  for (size_t i = 0; i < kMemoryClassCount; ++i)
    byClass[kMemoryClassNames[i]] = session.memory().byClass[i];
  nlohmann::ordered_json head;
  head["run"] = facts.run;
  head["world"] = session.shape().world;
  head["predicted_bytes"] = session.memory().arenaBytes;
  head["allocated_bytes"] = session.arena().bytes();
  head["by_class"] = byClass;
  if (const LowerMemory *lower = session.lower()) {
    head["spaces"] = {
        {"host", {{"predicted_bytes", session.memory().host.bytes}, {"allocated_bytes", lower->hostBytes()}}},
        {"disk", {{"predicted_bytes", session.memory().disk.bytes}, {"allocated_bytes", lower->diskBytes()}}}};
    if (const DiskSpace *disk = lower->disk()) {
      head["spaces"]["disk"]["file"] = disk->path();
      head["spaces"]["disk"]["engine"] = disk->description();
    }
  }
  if (const uint64_t measured = session.device().memory().libraryBytes())
    head["library_bytes"] = measured;
  head["reserve_bytes"] = reserveBytes(session);
  if (const double peak = peakOfRun(session); peak > 0)
    head["peak_flops"] = peak;
  if (plan.model().flops_per_token() > 0)
    head["flops_per_token"] = plan.model().flops_per_token();
  head["plan_sha256"] = session.planSha256();
  head["versions"] = {{"ztc", plan.ztc_version()},
                      {"device", session.device().description()},
                      {"communicator", communicatorText(session)}};
  if (const ChosenAlgorithms &chosen = session.algorithms(); !chosen.choices.key.empty()) {
    const std::string choices = printAlgorithmChoices(chosen.choices);
    head["algorithms"] = {
        {"key", chosen.choices.key},   {"calls", chosen.choices.algorithms.size()},
        {"resumed", chosen.resumed},   {"cached", chosen.cached},
        {"measured", chosen.measured}, {"unmeasured", chosen.unmeasured},
        {"seconds", chosen.seconds},   {"sha256", Sha256::hex(Sha256::of(choices.data(), choices.size()))}};
    for (const auto &[signature, ways] : chosen.attentionSeconds)
      for (const auto &[way, seconds] : ways)
        head["algorithms"]["attention_ms"][signature][way] = std::round(seconds * 1e6) / 1e3;
  }
  head["device"] = session.device().name();
  head["threads"] = session.shape().threads;
  head["accumulate"] = session.shape().accumulate;
  head["model"] = plan.model().name();
  head["parameters"] = plan.model().parameters();
  head["precision"] = plan.precision();
  if (const auto state = plan.options().find("optimizer-state"); state != plan.options().end())
    head["optimizer_state"] = state->second;
  if (facts.lossScale)
    head["loss_scale"] = *facts.lossScale;
  head["zero"] = plan.zero();
  head["batch"] = plan.model().batch();
  head["seq"] = plan.model().seq();
  head["steps"] = facts.steps;
  head["first_step"] = facts.firstStep;
  head["rows"] = facts.rows;
  if (const auto &packing = facts.packing)
    head["packing"] = {{"documents", packing->documents},
                       {"tokens", packing->places},
                       {"padding_share", packing->paddingShare(plan.model().seq())},
                       {"cut", packing->cut},
                       {"dropped", packing->dropped},
                       {"empty", packing->empty}};
  head["weights"] = facts.weights;
  if (!facts.differs.empty())
    head["differs"] = facts.differs;
  head["seed"] = facts.seed;
  head["shuffle"] = facts.shuffle;
  head["method"] = defaultsOf(methodOf(options, plan)).name;
  head["optimizer"] = {{"name", optimizerName(plan)},
                       {"lr", options.learningRate},
                       {"schedule", scheduleName(options.schedule)},
                       {"warmup", warmupSteps(options, facts.steps)},
                       {"min_lr_ratio", options.minLrRatio.value_or(kDefaultMinLrRatio)},
                       {"beta1", options.optimizer.beta1},
                       {"beta2", options.optimizer.beta2},
                       {"epsilon", options.optimizer.epsilon},
                       {"momentum", options.optimizer.momentum},
                       {"nesterov", options.optimizer.nesterov},
                       {"weight_decay", options.optimizer.weightDecay},
                       {"clip", options.optimizer.clip}};
  if (options.optimizer.clipBy != ClipBy::Norm)
    head["optimizer"]["clip_by"] = options.optimizer.clipBy == ClipBy::Bucket ? "block" : "previous";
  // Names come from files: bytes that are not UTF-8 must not end the run.
  return head.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace ztc
