// `ztc plan`: which ways of training a model fit a GPU, what each needs and how fast it will be.
#include "compiler/Analysis/GpuModels.h"
#include "compiler/Codegen/DeviceTargets.h"
#include "compiler/Driver/ChoiceRuns.h"
#include "compiler/Driver/Commands.h"
#include "compiler/Driver/TrainingConfig.h"
#include "compiler/Driver/Trial.h"
#include "compiler/Report/Choices.h"
#include "compiler/Report/Report.h"
#include "runtime/Core/NearestName.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/DeviceReserve.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <map>
#include <numeric>
#include <set>

using namespace mlir;

namespace ztc::driver {
namespace {

/// Rows of a step without --global-batch.
constexpr uint64_t kUsualGlobalBatch = 64;
/// The largest micro-batch that is tried.
constexpr uint64_t kLargestBatch = 64;
/// A larger micro-batch must be so much faster to be worth its memory.
constexpr double kWorthIt = 1.02;
/// Where nothing says how long a row may be.
constexpr uint64_t kLongestRow = 1 << 20;

/// A method with what it changes, most faithful first.
struct Method {
  TrainingMethod name;
  const char *lora = nullptr;
  FrozenFormat quantize = FrozenFormat::Plain;
  std::optional<StateFormat> optimizerState = std::nullopt;
  std::optional<MasterFormat> masters = std::nullopt;
  bool updatesInBackward = false;

  /// Of the numbers, in words.
  std::vector<std::string> changes() const {
    std::vector<std::string> words;
    if (optimizerState)
      words.push_back("optimizer states in " + wordOf(*optimizerState));
    if (masters)
      words.push_back("no masters");
    if (updatesInBackward)
      words.push_back("updates in the backward");
    return words;
  }
  bool isFor(const CompileOptions &options) const {
    return (!masters || storesBf16(options.precision)) &&
           !(updatesInBackward && options.precision == StoragePrecision::Fp16);
  }
};
constexpr Method kMethods[] = {
    {.name = TrainingMethod::Full},
    {.name = TrainingMethod::Full, .optimizerState = StateFormat::Bf16},
    {.name = TrainingMethod::Full, .optimizerState = StateFormat::Int8},
    {.name = TrainingMethod::Full, .updatesInBackward = true},
    {.name = TrainingMethod::Full, .optimizerState = StateFormat::Bf16, .masters = MasterFormat::None},
    {.name = TrainingMethod::Full, .optimizerState = StateFormat::Int8, .masters = MasterFormat::None},
    {.name = TrainingMethod::Full,
     .optimizerState = StateFormat::Int8,
     .masters = MasterFormat::None,
     .updatesInBackward = true},
    {.name = TrainingMethod::Lora, .lora = "r=16,alpha=32,targets=all-linear"},
    {.name = TrainingMethod::Qlora, .lora = "r=16,alpha=32,targets=all-linear", .quantize = FrozenFormat::Nf4},
};

class Search {
public:
  Search(const CompileOptions &options, const TrainingRequest &request, const GpuModel *gpu, report::ChoiceTable &table)
      : options(options), request(request), gpu(gpu), table(table) {}

  /// Fails after a message where the model does not compile.
  LogicalResult run();

private:
  using Place = std::pair<unsigned, unsigned>; ///< ranks, stage

  CompileOptions optionsOf(const Method &method, uint64_t batch) const;
  /// Fills `smallest` and `best` for one micro-batch; erases from `places` where a larger one need not be tried.
  LogicalResult measureBatch(const Method &method, uint64_t batch, std::set<Place> &places);
  FailureOr<report::TrainingChoice> measure(Session &session, StepProbe &probe, const Method &method, unsigned world);
  LogicalResult searchMethod(const Method &method);
  void recommend();
  /// Of a method that does not fit; `sharded` is its trial at stage 3, made where it is first needed.
  LogicalResult explainMissing(const Method &method, const report::TrainingChoice &smallest,
                               std::optional<Trial> &sharded);
  FailureOr<uint64_t> longestRow(const report::TrainingChoice &choice);
  MachineRates rates(const PlanShape &shape) const { return gpu ? ratesOf(*gpu) : ratesOf(shape); }
  void addCommands(report::TrainingChoice &choice, const CompileOptions &used) const;

  const CompileOptions &options;
  const TrainingRequest &request;
  const GpuModel *gpu;
  report::ChoiceTable &table;
  std::map<Place, report::TrainingChoice> best, smallest; ///< of the method that is looked at
  std::optional<uint64_t> positionLimit;
};

std::string quoted(const std::string &text) {
  const bool isPlain = llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || StringRef("/._-=,+:").contains(c); });
  return isPlain ? text : "'" + text + "'";
}

CompileOptions Search::optionsOf(const Method &method, uint64_t batch) const {
  CompileOptions used = options;
  used.batch = batch;
  if (method.lora && used.lora.empty() && used.adapter.empty())
    used.lora = method.lora;
  if (!method.lora)
    used.lora = used.adapter = "";
  // A format that was asked for stands, where the method has one.
  if (method.quantize == FrozenFormat::Plain || used.quantize == FrozenFormat::Plain)
    used.quantize = method.quantize;
  used.optimizerState = method.optimizerState.value_or(used.optimizerState);
  used.masters = method.masters.value_or(used.masters);
  if (method.updatesInBackward)
    used.updateTime = UpdateTime::InBackward;
  used.recompute = "auto";
  used.memoryBudget = table.availableBytes;
  used.memoryReserve = table.reserveBytes;
  used.given.insert("reserve");
  used.targets = {gpu ? gpu->target : "host"};
  return used;
}

/// What the user typed that the command has to say again.
std::string given(const CompileOptions &o) {
  std::string text;
  const auto add = [&](const char *name, const std::string &value) {
    if (!value.empty())
      text += " " + std::string(name) + "=" + quoted(value);
  };
  add("--weights", o.weights);
  add("--freeze", o.freezePattern);
  add("--padding-token", o.paddingToken);
  if (o.pack)
    text += " --pack";
  add("--optimizer", o.optimizer == "adamw" ? "" : o.optimizer);
  for (const std::string &role : o.inputRoles)
    add("--input", role);
  return text;
}

void Search::addCommands(report::TrainingChoice &choice, const CompileOptions &used) const {
  std::string text = "ztc compile " + quoted(used.input) + " -o plan.bin" + given(used);
  const auto add = [&](const char *name, const std::string &value) { text += std::string(" --") + name + "=" + value; };
  add("batch", std::to_string(choice.batch));
  add("seq", std::to_string(choice.sequence));
  add("precision", wordOf(used.precision));
  if (choice.stage)
    add("zero", std::to_string(choice.stage));
  if (!used.adapter.empty())
    add("adapter", quoted(used.adapter));
  else if (!used.lora.empty())
    add("lora", quoted(used.lora));
  if (used.quantize != FrozenFormat::Plain)
    add("quantize", wordOf(used.quantize));
  if (used.optimizerState != StateFormat::Fp32)
    add("optimizer-state", wordOf(used.optimizerState));
  if (used.masters != MasterFormat::Fp32)
    add("master", wordOf(used.masters));
  if (used.updateTime != UpdateTime::After)
    add("update", wordOf(used.updateTime));
  add("mem", std::to_string(table.availableBytes) + "B");
  if (table.reserveBytes)
    add("reserve", std::to_string(table.reserveBytes) + "B");
  add("gpus", std::to_string(choice.world));
  if (choice.accumulate > 1)
    add("accumulate", std::to_string(choice.accumulate));
  add("target", used.targets.front());
  if (used.threads)
    add("threads", std::to_string(used.threads));
  choice.compile = text;
  choice.run =
      std::string("ztc-run plan.bin") +
      (gpu ? " --gpus=" + std::to_string(choice.world) : " --device=cpu --ranks=" + std::to_string(choice.world)) +
      (choice.accumulate > 1 ? " --accumulate=" + std::to_string(choice.accumulate) : "") + request.runOptions;
  const auto addMissing = [&](std::initializer_list<StringRef> any, const char *text) {
    if (llvm::none_of(any, [&](StringRef name) { return StringRef(choice.run).contains((" --" + name + "=").str()); }))
      choice.run += text;
  };
  addMissing({"data"}, " --data=TOKENS");
  addMissing({"steps", "epochs"}, " --steps=N");
  if (used.updateTime == UpdateTime::InBackward && request.runOptions.find(" --clip=") == std::string::npos)
    choice.run += " --clip=block";
}

FailureOr<report::TrainingChoice> Search::measure(Session &session, StepProbe &probe, const Method &method,
                                                  unsigned world) {
  const CompileOptions &used = session.options();
  PlanShape shape = shapeOf(used, world, used.targets);
  shape.accumulate = uint32_t(table.globalBatch / (world * used.batch));
  FailureOr<RecomputeDecision> decision = session.decide(probe, shape);
  if (failed(decision))
    return failure();
  FailureOr<StepMeasure> step = probe.measure(decision->choice, shape, rates(shape));
  if (failed(step))
    return failure();
  report::TrainingChoice choice;
  choice.method = method.name;
  choice.changes = method.changes();
  choice.world = world;
  choice.stage = used.zero;
  choice.batch = used.batch;
  choice.accumulate = shape.accumulate;
  choice.sequence = table.sequence;
  choice.recomputed = report::decisionText(*decision);
  choice.peakBytes = step->peakBytes;
  choice.neededBytes = step->peakBytes + table.reserveBytes;
  choice.availableBytes = table.availableBytes;
  choice.seconds = step->seconds;
  addCommands(choice, used);
  return choice;
}

LogicalResult Search::measureBatch(const Method &method, uint64_t batch, std::set<Place> &places) {
  Session session(optionsOf(method, batch));
  if (!session.isValid() || failed(session.run(Phase::Import)))
    return failure();
  positionLimit = session.importReport().positionLimit;
  if (auto sequence = session.module()->getAttrOfType<IntegerAttr>("graph.seq"))
    table.sequence = uint64_t(sequence.getInt());
  if (failed(session.run(Phase::Backward)))
    return failure();
  const Session::Snapshot before = session.snapshot();
  std::set<unsigned> stages;
  for (const auto &[world, stage] : places)
    stages.insert(stage);
  for (unsigned stage : stages) {
    CompileOptions used = session.options();
    used.zero = stage;
    session.restore(before, used);
    if (failed(session.run(Phase::Shard)))
      return failure();
    StepProbe probe = session.probe();
    for (unsigned world : options.gpus) {
      const Place place{world, stage};
      if (!places.count(place))
        continue;
      FailureOr<report::TrainingChoice> choice = measure(session, probe, method, world);
      if (failed(choice))
        return failure();
      const auto least = smallest.try_emplace(place, *choice).first;
      if (choice->neededBytes < least->second.neededBytes)
        least->second = *choice;
      const auto [found, isFirst] = best.try_emplace(place, *choice);
      const bool isWorthIt = isFirst || choice->tokensPerSecond() > kWorthIt * found->second.tokensPerSecond();
      if (choice->fits() && isWorthIt)
        found->second = *choice;
      if (!choice->fits() || !isWorthIt)
        places.erase(place);
      if (isFirst && !choice->fits())
        best.erase(place);
    }
  }
  return success();
}

LogicalResult Search::searchMethod(const Method &method) {
  best.clear();
  smallest.clear();
  std::set<Place> places;
  for (unsigned world : options.gpus)
    for (unsigned stage : options.stages)
      if (world > 1 || stage == 0 || options.given.count("zero"))
        places.insert({world, stage});
  const uint64_t first = options.batch ? options.batch : 1, last = options.batch ? options.batch : kLargestBatch;
  for (uint64_t batch = first; batch <= last && !places.empty(); batch *= 2) {
    std::erase_if(places, [&](const Place &place) { return table.globalBatch % (place.first * batch) != 0; });
    // A step of such a plan is one micro-step: the micro-batch is each rank's part of the global batch.
    const auto isWhole = [&](const Place &place) { return place.first * batch == table.globalBatch; };
    if (method.updatesInBackward && llvm::none_of(places, isWhole))
      continue;
    std::set<Place> others;
    if (method.updatesInBackward)
      std::erase_if(places, [&](const Place &place) { return !isWhole(place) && others.insert(place).second; });
    if (places.empty())
      break;
    llvm::errs() << "ztc: " << wordOf(method.name);
    for (const std::string &change : method.changes())
      llvm::errs() << ", " << change;
    llvm::errs() << ", micro-batch " << batch << "\n";
    if (failed(measureBatch(method, batch, places)))
      return failure();
    if (method.updatesInBackward)
      places = std::move(others);
  }
  for (auto &[place, choice] : best)
    table.choices.push_back(choice);
  std::optional<Trial> sharded;
  for (unsigned world : options.gpus) {
    const auto hasWorld = [&](const auto &entry) { return entry.first.first == world; };
    if (llvm::any_of(best, hasWorld))
      continue;
    const auto least = std::min_element(smallest.begin(), smallest.end(), [&](const auto &a, const auto &b) {
      return std::pair(!hasWorld(a), a.second.neededBytes) < std::pair(!hasWorld(b), b.second.neededBytes);
    });
    if (least != smallest.end() && hasWorld(*least) && failed(explainMissing(method, least->second, sharded)))
      return failure();
  }
  return success();
}

LogicalResult Search::explainMissing(const Method &method, const report::TrainingChoice &smallest,
                                     std::optional<Trial> &sharded) {
  if (!sharded) {
    CompileOptions used = optionsOf(method, smallest.batch);
    used.zero = 3;
    sharded.emplace(used);
  }
  const uint64_t budget = table.availableBytes - table.reserveBytes;
  std::optional<Trial::Ranks> more = sharded->moreRanks(2 * smallest.world, budget);
  if (!more)
    return failure();
  report::MissingMemory missing{smallest, ""};
  if (more->peakBytes <= budget)
    missing.help = llvm::formatv("fits on {0} with --zero=3", more->ranks);
  else if (table.sequence > 1)
    missing.help = "activations alone are too large: a smaller --seq";
  table.missing.push_back(std::move(missing));
  return success();
}

FailureOr<uint64_t> Search::longestRow(const report::TrainingChoice &choice) {
  const Method *method = llvm::find_if(
      kMethods, [&](const Method &each) { return choice.method == each.name && choice.changes == each.changes(); });
  const uint64_t limit = positionLimit ? uint64_t(*positionLimit) : kLongestRow;
  const auto fits = [&](uint64_t sequence) -> FailureOr<bool> {
    CompileOptions used = optionsOf(*method, choice.batch);
    used.zero = choice.stage;
    used.seq = sequence;
    Session session(used);
    if (!session.isValid() || failed(session.run(Phase::Shard)))
      return failure();
    StepProbe probe = session.probe();
    PlanShape shape = shapeOf(used, choice.world, used.targets);
    shape.accumulate = choice.accumulate;
    FailureOr<RecomputeDecision> decision = session.decide(probe, shape);
    return failed(decision) ? FailureOr<bool>(failure()) : decision->fits;
  };
  uint64_t good = choice.sequence, bad = 0;
  while (!bad && good < limit) {
    const uint64_t next = std::min(limit, 2 * good);
    FailureOr<bool> found = fits(next);
    if (failed(found))
      return failure();
    (*found ? good : bad) = next;
  }
  // To an eighth of the length; each try is a compilation.
  while (bad && bad - good > std::max<uint64_t>(1, good / 8)) {
    const uint64_t middle = good + (bad - good) / 2;
    FailureOr<bool> found = fits(middle);
    if (failed(found))
      return failure();
    (*found ? good : bad) = middle;
  }
  return good;
}

void Search::recommend() {
  for (unsigned world : options.gpus) {
    std::optional<size_t> found;
    for (const auto &[index, choice] : llvm::enumerate(table.choices)) {
      if (choice.world != world)
        continue;
      // Rows stand in the order of their methods, so a later method never replaces an earlier one.
      const bool isSameGroup =
          found && table.choices[*found].method == choice.method && table.choices[*found].changes == choice.changes;
      if (!found || (isSameGroup && choice.tokensPerSecond() > table.choices[*found].tokensPerSecond()))
        found = index;
    }
    if (found)
      table.recommended.push_back(*found);
  }
}

LogicalResult Search::run() {
  bool foundAll = false;
  for (const Method &method : kMethods) {
    if ((request.method != TrainingMethod::Auto && request.method != method.name) || !method.isFor(options))
      continue;
    // What changes numbers is for those whom nothing else fits.
    if (!method.changes().empty() && foundAll)
      continue;
    const size_t before = table.choices.size();
    if (failed(searchMethod(method)))
      return failure();
    std::set<unsigned> worlds;
    for (const report::TrainingChoice &choice : llvm::ArrayRef(table.choices).drop_front(before))
      worlds.insert(choice.world);
    foundAll = worlds.size() == std::set<unsigned>(options.gpus.begin(), options.gpus.end()).size();
  }
  recommend();
  if (request.longest)
    for (size_t index : table.recommended) {
      FailureOr<uint64_t> longest = longestRow(table.choices[index]);
      if (failed(longest))
        return failure();
      table.choices[index].longest = *longest;
    }
  return success();
}

/// The smallest number of rows a step from `least` on that all numbers of ranks divide.
uint64_t usualGlobalBatch(const std::vector<unsigned> &worlds) {
  uint64_t all = 1;
  for (unsigned world : worlds)
    all = std::lcm(all, uint64_t(world));
  return roundUp(kUsualGlobalBatch, all);
}

} // namespace

int runPlan(const CompileOptions &given, const TrainingRequest &request, const ReportOptions &report) {
  CompileOptions options = given;
  const bool isHost = request.gpu == "host" || request.gpu == "cpu";
  const GpuModel *gpu = isHost ? nullptr : findGpuModel(request.gpu);
  if (!isHost && !gpu) {
    std::vector<std::string> names{"host"};
    for (const GpuModel &model : allGpuModels())
      names.push_back(model.name);
    const std::string meant = nearestName(request.gpu, names);
    return fail("--gpu=" + request.gpu + ": not known" + (meant.empty() ? "" : ", did you mean " + meant + "?") +
                    (meant.empty() ? "; known are host, " : " Known are host, ") + gpuModelNames() +
                    "; for another one take the nearest and give --mem=SIZE",
                2);
  }
  if (isHost && !options.memoryBudget)
    return fail("--gpu=host needs --mem=SIZE: what a rank may take of this machine's memory", 2);
  TrainingRequest asked = request;
  if (!request.configs.empty()) {
    TrainingConfig config;
    if (!config.read(request.configs))
      return 2;
    config.apply(options, asked.globalBatch, options.gpus.back());
    asked.runOptions = config.runOptions();
    if (request.method == TrainingMethod::Auto)
      asked.method = options.quantize != FrozenFormat::Plain ? TrainingMethod::Qlora
                     : !options.lora.empty()                 ? TrainingMethod::Lora
                                                             : TrainingMethod::Full;
    config.print(report.json ? llvm::errs() : llvm::outs());
    if (const std::vector<std::string> missing = config.notThere(request.ignored); !missing.empty())
      return fail("--config: ztc has nothing for " + llvm::join(missing, ", ") + "; --ignore=FIELD leaves a field out",
                  2);
  }
  if (options.stages.empty())
    options.stages = {0, 1, 2, 3};
  std::set<unsigned> worlds(options.gpus.begin(), options.gpus.end());
  options.gpus.assign(worlds.begin(), worlds.end());
  if (gpu && options.precision == StoragePrecision::Fp8 && !(findDeviceTarget(gpu->target)->products & kFp8Products))
    return fail(std::string("--gpu=") + gpu->name + ": has no products in fp8, --precision=bf16 is for it", 2);
  report::ChoiceTable table;
  table.model = llvm::sys::path::filename(StringRef(options.input).rtrim('/')).str();
  table.device = gpu ? gpu->name : "this host";
  table.precision = wordOf(options.precision);
  table.availableBytes = options.memoryBudget ? options.memoryBudget : gpu->memoryBytes();
  table.reserveBytes = options.memoryReserve;
  if (gpu && !options.given.count("reserve"))
    table.reserveBytes = estimatedReserveBytes(gpu->target, options.gpus.back());
  if (table.reserveBytes >= table.availableBytes)
    return fail("--mem=" + formatSize(table.availableBytes) + " leaves nothing beside the reserve of " +
                    formatSize(table.reserveBytes) + " (--reserve)",
                2);
  table.globalBatch = asked.globalBatch ? asked.globalBatch : usualGlobalBatch(options.gpus);
  for (unsigned world : options.gpus)
    if (table.globalBatch % (world * std::max<uint64_t>(1, options.batch)))
      return fail(llvm::formatv("--global-batch={0} cannot be shared by {1} ranks{2}", table.globalBatch, world,
                                options.batch ? " in micro-batches of " + std::to_string(options.batch) : ""),
                  2);
  if (failed(Search(options, asked, gpu, table).run()))
    return 1;
  table.errorSeen = errorSeen(request.runsFile, table.device);
  show(llvm::outs(), [&](llvm::raw_ostream &out) { report.json ? table.printJson(out) : table.printText(out); });
  if (request.verified) {
    const std::vector<ChoiceRun> runs = runChoices(table, request.verified, request.runsFile);
    show(report.json ? llvm::errs() : llvm::outs(), [&](llvm::raw_ostream &out) { printRuns(out, runs); });
    if (llvm::any_of(runs, [](const ChoiceRun &run) { return run.measuredSeconds <= 0; }))
      return 1;
  }
  return table.choices.empty() ? 1 : 0;
}

} // namespace ztc::driver
