// `ztc plan`: which ways of training a model fit a GPU, what each needs and how fast it will be.
#include "compiler/Driver/ChoiceRuns.h"
#include "compiler/Driver/Commands.h"
#include "compiler/Driver/Offload.h"
#include "compiler/Driver/PlanData.h"
#include "compiler/Driver/RegisteredNames.h"
#include "compiler/Driver/StageSearch.h"
#include "compiler/Driver/TrainingConfig.h"
#include "compiler/Driver/Trial.h"
#include "compiler/Report/Choices.h"
#include "compiler/Report/Report.h"
#include "compiler/Support/WorkerProcesses.h"
#include "frontends/huggingface/Folder.h"
#include "runtime/Core/NearestName.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/DeviceReserve.h"
#include "runtime/Format/QuantizedMatrices.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <map>
#include <numeric>
#include <set>
#include <thread>

using namespace mlir;

namespace ztc::driver {
namespace {

/// Rows of a step without --global-batch.
constexpr uint64_t kUsualGlobalBatch = 64;
/// Where nothing says how long a row may be.
constexpr uint64_t kLongestRow = 1 << 20;
/// At most so many processes search, each of 300 to 500 MiB.
constexpr unsigned kMostProcesses = 16;

/// The smallest number of rows a step from kUsualGlobalBatch on that all numbers of ranks divide.
uint64_t usualGlobalBatch(const std::vector<unsigned> &worlds) {
  uint64_t all = 1;
  for (unsigned world : worlds)
    all = std::lcm(all, uint64_t(world));
  return roundUp(kUsualGlobalBatch, all);
}

/// What one method is asked, in this order.
enum class Question { Rows, Below, Least };

/// Searches all methods. Its tasks are parts of one method to one question; what is asked next is known when all of
/// these have ended, so processors work on other methods meanwhile.
class Search : private WorkSource {
public:
  Search(const PlanScope &scope, const TrainingRequest &request, report::ChoiceTable &table)
      : scope(scope), options(scope.options), request(request), table(table) {}

  /// Imports the model, so that an error in it is reported once, before the search starts several processes.
  LogicalResult readModel();
  uint64_t vocabulary() const { return modelVocabulary; }
  /// After readModel(). Fails after a message where the model does not compile.
  LogicalResult run();

private:
  /// What was found of one method, by ranks and stage.
  struct Found {
    std::map<std::pair<unsigned, unsigned>, report::TrainingChoice> rows, below, smallest;
    bool hasRows(unsigned world) const { return hasWorld(rows, world); }
    static bool hasWorld(const std::map<std::pair<unsigned, unsigned>, report::TrainingChoice> &all, unsigned world) {
      return llvm::any_of(all, [&](const auto &entry) { return entry.first.first == world; });
    }
  };

  /// On one rank all stages are alike.
  bool isSearched(unsigned world, unsigned stage) const {
    return world > 1 || stage == 0 || options.given.count("zero");
  }
  std::vector<StagePart> partsOf(const PlanMethod &method) const;
  /// The same with what lies below the device, for the ranks where nothing fits without.
  std::vector<StagePart> partsBelow(const PlanMethod &method) const;
  /// Adds what this method is asked to the tasks, or asks the next question where there is nothing to it.
  void ask(size_t method, Question question);
  /// Asks what follows from the answers to this question.
  void answered(size_t method, Question question);
  std::optional<size_t> next() override;
  LogicalResult work(size_t task, llvm::raw_ostream &out) override;
  LogicalResult ended(size_t task, WorkerResult result) override;
  void add(const StagePart &part, const StageRows &rows);
  bool fitsEverywhere(const PlanMethod &method) {
    return llvm::all_of(options.gpus, [&](unsigned world) { return found[&method].hasRows(world); });
  }
  /// How little memory would do on ranks for which no row was found, where that is not known yet.
  std::vector<StagePart> partsOfMissing(const PlanMethod &method) const;
  LogicalResult addToTable(const PlanMethod &method);
  void recommend();
  /// Trials of a method at stage 3, by their micro-batch.
  using Trials = std::map<uint64_t, Trial>;
  /// Of a method that does not fit. Trials are made where they are first needed.
  LogicalResult explainMissing(const PlanMethod &method, const report::TrainingChoice &smallest, Trials &trials);
  /// A method at stage 3 on so many ranks as `ztc plan --gpus=RANKS --zero=3` looks at it, with the smallest
  /// micro-batch.
  CompileOptions optionsOn(const PlanMethod &method, unsigned ranks) const;
  /// The value of --global-batch, or its default for this number of ranks.
  uint64_t globalBatchOn(unsigned ranks) const;
  /// What more ranks, or stage 3, would make fit: "" where no number of them does.
  FailureOr<std::string> ranksThatFit(const PlanMethod &method, const report::TrainingChoice &smallest, Trials &trials);
  FailureOr<uint64_t> longestRow(const report::TrainingChoice &choice);

  const PlanScope &scope;
  const CompileOptions &options;
  const TrainingRequest &request;
  report::ChoiceTable &table;
  /// Parts that share what comes before phase `shard`.
  struct Task {
    size_t method;
    Question question;
    std::vector<StagePart> parts;
    bool hasBegun = false;
  };

  std::vector<const PlanMethod *> methods; ///< that may be asked
  std::vector<Task> tasks;
  std::map<size_t, unsigned> unanswered; ///< tasks of a method that have not ended
  std::map<const PlanMethod *, Found> found;
  std::optional<uint64_t> positionLimit;
  uint64_t modelVocabulary = 0;
};

LogicalResult Search::readModel() {
  Session session(scope.optionsOf(planMethods().front(), std::max<uint64_t>(1, options.batch)));
  if (!session.isValid() || failed(session.run(Phase::Import)))
    return failure();
  if (const int64_t limit = session.importReport().positionLimit; limit > 0)
    positionLimit = uint64_t(limit);
  modelVocabulary = uint64_t(session.importReport().vocabulary);
  if (auto sequence = session.module()->getAttrOfType<IntegerAttr>("graph.seq"))
    table.sequence = uint64_t(sequence.getInt());
  return success();
}

std::vector<StagePart> Search::partsOf(const PlanMethod &method) const {
  std::vector<StagePart> parts;
  for (unsigned stage : options.stages) {
    StagePart part{&method, stage, {}};
    llvm::copy_if(options.gpus, std::back_inserter(part.worlds),
                  [&](unsigned world) { return isSearched(world, stage); });
    if (!part.worlds.empty())
      parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<StagePart> Search::partsBelow(const PlanMethod &method) const {
  if (!scope.hasSpaceBelow())
    return {};
  const auto known = found.find(&method);
  std::vector<StagePart> parts;
  for (unsigned stage : options.stages) {
    StagePart part{&method, stage, {}, true};
    // On one rank stage 3 brings parameters by its gathers and stage 0 by windows for runs of uses: two schedules.
    llvm::copy_if(options.gpus, std::back_inserter(part.worlds), [&](unsigned world) {
      return (world > 1 || stage == 0 || stage == 3 || options.given.count("zero")) &&
             (known == found.end() || !known->second.hasRows(world));
    });
    // The search before has seen these ranks at this stage.
    if (known != found.end())
      llvm::copy_if(part.worlds, std::back_inserter(part.fullWorlds),
                    [&](unsigned world) { return isSearched(world, stage); });
    if (!part.worlds.empty())
      parts.push_back(std::move(part));
  }
  return parts;
}

static unsigned processesOfSearch() {
  return std::clamp(std::thread::hardware_concurrency(), 1u, kMostProcesses);
}

void Search::ask(size_t method, Question question) {
  const std::vector<StagePart> parts = question == Question::Rows    ? partsOf(*methods[method])
                                       : question == Question::Below ? partsBelow(*methods[method])
                                                                     : partsOfMissing(*methods[method]);
  if (parts.empty())
    return answered(method, question);
  // What comes before phase `shard` is done once for a task; but no processor is to have nothing to do.
  const size_t most = parts.size() >= 2 * processesOfSearch() ? 2 : 1;
  for (size_t first = 0; first < parts.size(); first += most) {
    const auto together = ArrayRef(parts).drop_front(first).take_front(most);
    tasks.push_back({method, question, together.vec()});
    ++unanswered[method];
  }
}

void Search::answered(size_t method, Question question) {
  if (question == Question::Least)
    return;
  if (question == Question::Below)
    return ask(method, Question::Least);
  // What changes numbers is for those whom nothing else fits.
  if (method + 1 < methods.size() && !methods[method + 1]->changes().empty() && !fitsEverywhere(*methods[method]))
    ask(method + 1, Question::Rows);
  ask(method, Question::Below);
}

std::optional<size_t> Search::next() {
  // First what others wait for: the rows of a method that one with changes may follow. Of the rest what takes longest:
  // whoever begins that last ends alone.
  const auto rank = [&](const Task &task) {
    const bool isAwaited = task.question == Question::Rows && task.method + 1 < methods.size() &&
                           !methods[task.method + 1]->changes().empty();
    return std::pair(!isAwaited, task.question == Question::Below ? 0 : task.question == Question::Rows ? 1 : 2);
  };
  std::optional<size_t> first;
  for (const auto &[index, task] : llvm::enumerate(tasks))
    if (!task.hasBegun && (!first || rank(task) < rank(tasks[*first])))
      first = index;
  if (!first)
    return std::nullopt;
  tasks[*first].hasBegun = true;
  for (const StagePart &part : tasks[*first].parts)
    llvm::errs() << "ztc: " + wordOf(part.method->name) +
                        llvm::join(llvm::map_range(part.method->changes(), [](auto &change) { return ", " + change; }),
                                   "") +
                        ", --zero=" + std::to_string(part.stage) +
                        (part.below ? ", with memory below the device" : "") + "\n";
  return first;
}

LogicalResult Search::work(size_t task, llvm::raw_ostream &out) {
  std::vector<StageRows> rows;
  if (failed(searchStages(scope, tasks[task].parts, rows)))
    return failure();
  out << toJson(rows);
  return success();
}

LogicalResult Search::ended(size_t index, WorkerResult result) {
  const std::vector<StagePart> &parts = tasks[index].parts;
  std::vector<StageRows> rows;
  if (!result.isDone || failed(fromJson(result.written, rows)) || rows.size() != parts.size()) {
    llvm::errs() << result.messages;
    return failure();
  }
  for (const auto &[part, foundRows] : llvm::zip(parts, rows))
    add(part, foundRows);
  const size_t method = tasks[index].method;
  if (--unanswered[method] == 0)
    answered(method, tasks[index].question);
  return success();
}

void Search::add(const StagePart &part, const StageRows &rows) {
  Found &mine = found[part.method];
  for (const report::TrainingChoice &choice : rows.rows)
    (part.below ? mine.below : mine.rows)[{choice.world, choice.stage}] = choice;
  for (const report::TrainingChoice &choice : rows.smallest)
    if (!part.below)
      mine.smallest[{choice.world, choice.stage}] = choice;
}

std::vector<StagePart> Search::partsOfMissing(const PlanMethod &method) const {
  const auto known = found.find(&method);
  if (known == found.end()) // not searched
    return {};
  const Found &mine = known->second;
  std::vector<StagePart> parts = partsOf(method);
  for (StagePart &part : parts) {
    part.least = true;
    std::erase_if(part.worlds, [&](unsigned world) {
      return mine.hasRows(world) || Found::hasWorld(mine.below, world) || mine.smallest.count({world, part.stage});
    });
  }
  std::erase_if(parts, [](const StagePart &part) { return part.worlds.empty(); });
  return parts;
}

LogicalResult Search::addToTable(const PlanMethod &method) {
  const Found &mine = found[&method];
  std::vector<report::TrainingChoice> rows;
  for (const auto &entries : {mine.rows, mine.below})
    for (const auto &[place, choice] : entries)
      rows.push_back(choice);
  llvm::sort(rows, [](const report::TrainingChoice &a, const report::TrainingChoice &b) {
    return std::tuple(a.world, -a.tokensPerSecond(), a.stage) < std::tuple(b.world, -b.tokensPerSecond(), b.stage);
  });
  llvm::append_range(table.choices, rows);
  Trials trials;
  for (unsigned world : options.gpus) {
    if (mine.hasRows(world) || Found::hasWorld(mine.below, world))
      continue;
    const report::TrainingChoice *least = nullptr;
    for (const auto &[place, choice] : mine.smallest)
      if (place.first == world && (!least || choice.neededBytes < least->neededBytes))
        least = &choice;
    if (least && failed(explainMissing(method, *least, trials)))
      return failure();
  }
  return success();
}

uint64_t Search::globalBatchOn(unsigned ranks) const {
  return request.globalBatch ? request.globalBatch : usualGlobalBatch({ranks});
}

CompileOptions Search::optionsOn(const PlanMethod &method, unsigned ranks) const {
  uint64_t batch = std::max<uint64_t>(1, options.batch), rows = roundUp(globalBatchOn(ranks), ranks * batch);
  if (method.updatesInBackward && options.batch)
    rows = ranks * batch;
  else if (method.updatesInBackward)
    batch = rows / ranks;
  CompileOptions used = scope.optionsOf(method, batch);
  used.zero = 3;
  used.gpus = {ranks};
  used.gpusGiven = true;
  used.globalBatch = rows;
  used.accumulate = unsigned(rows / (ranks * batch));
  if (scope.gpu && !options.given.count("reserve"))
    used.memoryReserve = std::max(scope.reserveBytes, estimatedReserveBytes(scope.gpu->target, ranks));
  scope.openSpaces(used);
  return used;
}

FailureOr<std::string> Search::ranksThatFit(const PlanMethod &method, const report::TrainingChoice &smallest,
                                            Trials &trials) {
  // One rank holds at stage 3 what it holds at others, but for what moves below the device.
  const bool hasOtherStage = !llvm::is_contained(options.stages, 3u) && (smallest.world > 1 || scope.hasSpaceBelow());
  std::optional<uint64_t> leastBytes;
  for (unsigned ranks = smallest.world * (hasOtherStage ? 1 : 2); ranks <= kMostTriedRanks; ranks *= 2) {
    const CompileOptions used = optionsOn(method, ranks);
    const std::optional<StepMeasure> step = trials.try_emplace(used.batch, used).first->second.smallest(used);
    if (!step)
      return failure();
    if (step->peakBytes <= arenaBudgetBytes(used)) {
      std::string text = llvm::formatv("fits on {0} with --zero=3", ranks);
      if (used.globalBatch != globalBatchOn(ranks))
        text += llvm::formatv(" --global-batch={0}", used.globalBatch);
      if (step->hostBytes)
        text += ", " + formatSize(step->hostBytes) + " of each on the host";
      if (step->diskBytes)
        text += ", " + formatSize(step->diskBytes) + " of each on disk";
      return text;
    }
    if (leastBytes && step->peakBytes >= *leastBytes)
      break;
    if (ranks > 1) // one rank gathers nothing
      leastBytes = step->peakBytes;
  }
  return std::string();
}

LogicalResult Search::explainMissing(const PlanMethod &method, const report::TrainingChoice &smallest, Trials &trials) {
  FailureOr<std::string> help = ranksThatFit(method, smallest, trials);
  if (failed(help))
    return failure();
  report::MissingMemory missing{smallest, *help};
  if (missing.help.empty() && method.updatesInBackward && smallest.batch > 1)
    missing.help = "a step is one micro-step, of all rows of a rank: a smaller --global-batch";
  else if (missing.help.empty() && table.sequence > 1)
    missing.help = "activations alone are too large: a smaller --seq";
  table.missing.push_back(std::move(missing));
  return success();
}

FailureOr<uint64_t> Search::longestRow(const report::TrainingChoice &choice) {
  const PlanMethod *method = llvm::find_if(planMethods(), [&](const PlanMethod &each) {
    return choice.method == each.name && choice.changes == each.changes();
  });
  const uint64_t limit = positionLimit ? uint64_t(*positionLimit) : kLongestRow;
  const auto fits = [&](uint64_t sequence) -> FailureOr<bool> {
    CompileOptions used = scope.optionsOf(*method, choice.batch);
    used.zero = choice.stage;
    used.seq = sequence;
    used.gpus = {choice.world};
    used.gpusGiven = true;
    used.accumulate = choice.accumulate;
    if (choice.hostBytes || choice.diskBytes) {
      used.hostMemory = options.hostMemory ? options.hostMemory : choice.hostBytes ? kAnyHostMemory : 0;
      used.disk = options.disk;
      used.diskMemory = options.diskMemory;
    }
    Session session(used);
    if (!session.isValid() || failed(session.run(Phase::Shard)) || failed(session.chooseOffload()))
      return failure();
    StepProbe probe = session.probe();
    FailureOr<RecomputeDecision> decision = session.decide(probe, shapeOf(used, choice.world, used.targets));
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
  for (const PlanMethod &method : planMethods())
    if ((request.method == TrainingMethod::Auto || request.method == method.name) && method.isFor(options))
      methods.push_back(&method);
  for (size_t method = 0; method < methods.size(); ++method)
    if (methods[method]->changes().empty())
      ask(method, Question::Rows);
  if (failed(runInProcesses(processesOfSearch(), *this)))
    return failure();
  for (const PlanMethod *method : methods)
    if (failed(addToTable(*method)))
      return failure();
  recommend();
  if (request.longest)
    for (size_t index : table.recommended) {
      FailureOr<uint64_t> longest = longestRow(table.choices[index]);
      if (failed(longest))
        return failure();
      const uint64_t rowLength = *longest;
      table.choices[index].longest = rowLength;
    }
  return success();
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
  if (request.configs.empty() && !request.ignored.empty())
    return fail("--ignore=" + request.ignored.front() + ": there is no --config that a field could be left out of", 2);
  if (!request.configs.empty()) {
    TrainingConfig config;
    if (!config.read(request.configs, options.input))
      return 2;
    config.apply(options, asked.globalBatch, options.gpus.back());
    asked.runOptions = config.runOptions();
    if (request.method == TrainingMethod::Auto)
      asked.method = options.quantize != FrozenFormat::Plain ? TrainingMethod::Qlora
                     : !options.lora.empty()                 ? TrainingMethod::Lora
                                                             : TrainingMethod::Full;
    config.print(report.json ? llvm::errs() : llvm::outs());
    if (const std::string problem = config.problemOf(request.ignored); !problem.empty())
      return fail(problem, 2);
    if (const std::vector<std::string> missing = config.notThere(request.ignored); !missing.empty())
      return fail("--config: ztc has nothing for " + llvm::join(missing, ", ") + "; --ignore=FIELD leaves a field out",
                  2);
  }
  if (options.adjustLrFn != AdjustLr::MatchRmsAdamw && !orthogonalizes(options))
    llvm::errs() << "ztc: note: --adjust-lr-fn has no effect: it is for --optimizer=muon\n";
  // Weights that are stored so lose nothing; the methods that store all in full pass over it.
  if (options.quantize == FrozenFormat::Plain && huggingface::isModelFolder(options.input) &&
      quantizationConfigOf(options.input).method == wordOf(FrozenFormat::Mxfp4))
    options.quantize = FrozenFormat::Mxfp4;
  if (options.stages.empty())
    options.stages = {0, 1, 2, 3};
  std::set<unsigned> worlds(options.gpus.begin(), options.gpus.end());
  options.gpus.assign(worlds.begin(), worlds.end());
  options.targets = {gpu ? gpu->target : "host"};
  useGpuModel(gpu);
  if (gpu && options.threads) {
    llvm::errs() << "ztc: note: --threads has no effect: it counts a host's threads, and --gpu names a GPU\n";
    options.threads = 0;
  }
  if (const std::string problem = unusable(options); !problem.empty())
    return fail(problem, 2);
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
  PlanScope scope{options, gpu, table.availableBytes, table.reserveBytes, table.globalBatch, asked.runOptions};
  Search search(scope, asked, table);
  if (failed(search.readModel()))
    return 1;
  if (!asked.data.empty()) {
    std::string problem;
    table.data = describeData(options, asked, table.sequence, search.vocabulary(), problem);
    if (!table.data)
      return fail("--data: " + problem);
    scope.runOptions += dataOptions(options, asked);
  }
  if (failed(search.run()))
    return 1;
  table.error = errorSeen(request.runsFile, table.device);
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
