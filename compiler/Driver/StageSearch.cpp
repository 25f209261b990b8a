#include "compiler/Driver/StageSearch.h"
#include "compiler/Driver/BatchChoice.h"
#include "compiler/Driver/Offload.h"
#include "compiler/Driver/Session.h"
#include "compiler/Report/Report.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <set>

using namespace mlir;

namespace ztc::driver {
namespace {

/// The largest micro-batch of a plan whose step is one micro-step.
constexpr uint64_t kLargestMicroBatch = 64;
/// A larger micro-batch must be so much faster to be worth its memory.
constexpr double kWorthIt = 1.02;

using report::TrainingChoice;

class StageSearch {
public:
  StageSearch(const PlanScope &scope, const StagePart &part)
      : scope(scope), part(part), worlds(part.worlds.begin(), part.worlds.end()) {}

  /// Micro-batches to try, in this order.
  std::set<uint64_t> batches() const {
    if (scope.options.batch)
      return {scope.options.batch};
    std::set<uint64_t> all;
    for (unsigned world : part.worlds) {
      const std::vector<uint64_t> ofWorld = batchesOn(world);
      all.insert(ofWorld.begin(), ofWorld.end());
    }
    return all;
  }

  /// On which ranks this micro-batch is to be measured.
  std::vector<unsigned> worldsOf(uint64_t batch) {
    std::vector<unsigned> now(worlds.begin(), worlds.end());
    std::erase_if(now, [&](unsigned world) { return !llvm::is_contained(batchesOn(world), batch); });
    return now;
  }

  /// On these ranks; `session` has its options and the module after phase `shard`. Leaves among the worlds those where
  /// a larger micro-batch may be worth trying.
  LogicalResult measureBatch(Session &session, uint64_t batch, ArrayRef<unsigned> now) {
    if (auto attribute = session.module()->getAttrOfType<IntegerAttr>("graph.seq"))
      sequence = uint64_t(attribute.getInt());
    if (!part.below) {
      StepProbe probe = session.probe();
      for (unsigned world : now)
        if (failed(measure(session, probe, world)))
          return failure();
      return success();
    }
    // What lies below is decided for one number of ranks.
    CompileOptions used = optionsOf(batch);
    const Session::Snapshot sharded = session.snapshot();
    for (unsigned world : now) {
      used.gpus = {world};
      used.gpusGiven = true;
      used.accumulate = unsigned(scope.globalBatch / (world * batch));
      scope.openSpaces(used);
      used.needsOffload = batch == *batches().begin() && llvm::is_contained(part.fullWorlds, world);
      session.restore(sharded, used);
      if (best.count(world)) {
        // A search of what lies below takes long: none where moving what has no room takes too long in any case.
        const PlanShape shape = shapeOn(used, world);
        FailureOr<double> seconds = session.leastOffloadedSeconds(shape, ratesOf(shape));
        if (failed(seconds))
          return failure();
        if (!isWorth(*seconds, shape, used, world)) {
          worlds.erase(world);
          continue;
        }
      }
      if (failed(session.chooseOffload()))
        return failure();
      StepProbe probe = session.probe();
      if (failed(measure(session, probe, world)))
        return failure();
    }
    return success();
  }

  CompileOptions optionsOf(uint64_t batch) const {
    CompileOptions used = scope.optionsOf(*part.method, batch);
    used.zero = part.stage;
    return used;
  }

  unsigned stage() const { return part.stage; }

  StageRows found() const {
    StageRows rows;
    for (const auto &[world, choice] : best)
      rows.rows.push_back(choice);
    for (const auto &[world, choice] : smallest)
      rows.smallest.push_back(choice);
    return rows;
  }

private:
  /// The micro-batches to try on so many ranks.
  std::vector<uint64_t> batchesOn(unsigned world) const {
    const uint64_t rows = scope.globalBatch % world == 0 ? scope.globalBatch / world : 0;
    // A step of such a plan is one micro-step: the micro-batch is each rank's part of the global batch.
    const bool isWhole = part.method->updatesInBackward;
    if (const uint64_t given = scope.options.batch)
      return rows == given || (!isWhole && rows && rows % given == 0) ? std::vector{given} : std::vector<uint64_t>();
    if (isWhole)
      return rows && rows <= kLargestMicroBatch ? std::vector{rows} : std::vector<uint64_t>();
    return microBatches(rows);
  }

  PlanShape shapeOn(const CompileOptions &used, unsigned world) const {
    PlanShape shape = shapeOf(used, world, used.targets);
    shape.accumulate = uint32_t(scope.globalBatch / (world * used.batch));
    return shape;
  }

  /// Whether a step of these seconds is worth its memory beside the best that is known.
  bool isWorth(double seconds, const PlanShape &shape, const CompileOptions &used, unsigned world) const {
    const double tokens = double(world) * shape.accumulate * double(used.batch * sequence);
    return tokens / seconds > kWorthIt * best.at(world).tokensPerSecond();
  }

  LogicalResult measure(Session &session, StepProbe &probe, unsigned world) {
    const CompileOptions &used = session.options();
    const PlanShape shape = shapeOn(used, world);
    const MachineRates rates = ratesOf(shape);
    if (best.count(world)) {
      // Where the least that any choice may take is not worth it, none is searched.
      FailureOr<double> seconds = session.leastSeconds(probe, shape, rates);
      if (failed(seconds))
        return failure();
      if (!isWorth(*seconds, shape, used, world)) {
        worlds.erase(world);
        return success();
      }
    }
    if (!part.least) {
      FailureOr<bool> isHopeless = probe.isHopeless(shape, scope.availableBytes - scope.reserveBytes);
      if (failed(isHopeless))
        return failure();
      if (*isHopeless) {
        worlds.erase(world);
        return success();
      }
    }
    FailureOr<RecomputeDecision> decision = session.decide(probe, shape);
    if (failed(decision))
      return failure();
    FailureOr<StepMeasure> step = decision->chosen;
    if (decision->fits)
      step = session.measure(probe, decision->choice, shape, rates);
    if (failed(step))
      return failure();
    add(session, *decision, *step, world, shape.accumulate);
    return success();
  }

  void add(Session &session, const RecomputeDecision &decision, const StepMeasure &step, unsigned world,
           unsigned accumulate) {
    TrainingChoice choice;
    choice.method = part.method->name;
    choice.changes = part.method->changes();
    choice.world = world;
    choice.stage = part.stage;
    choice.batch = session.options().batch;
    choice.accumulate = accumulate;
    choice.sequence = sequence;
    choice.recomputed = report::decisionText(decision);
    choice.peakBytes = step.peakBytes;
    choice.hostBytes = step.hostBytes;
    choice.diskBytes = step.diskBytes;
    choice.neededBytes = step.peakBytes + scope.reserveBytes;
    choice.availableBytes = scope.availableBytes;
    choice.seconds = step.seconds;
    scope.addCommands(choice, session.options());
    const auto least = smallest.try_emplace(world, choice).first;
    if (choice.neededBytes < least->second.neededBytes)
      least->second = choice;
    const auto known = best.find(world);
    const bool isWorthIt = known == best.end() || choice.tokensPerSecond() > kWorthIt * known->second.tokensPerSecond();
    if (choice.fits() && isWorthIt)
      best[world] = choice;
    else
      worlds.erase(world);
  }

  const PlanScope &scope;
  const StagePart &part;
  std::set<unsigned> worlds; ///< where a larger micro-batch may be worth trying
  uint64_t sequence = 0;
  std::map<unsigned, TrainingChoice> best, smallest; ///< by the number of ranks
};

} // namespace

/// Of searches that differ in their stages, with this micro-batch.
static LogicalResult searchBatch(MutableArrayRef<StageSearch> searches, uint64_t batch, bool isFirst) {
  std::optional<Session> session;
  std::optional<Session::Snapshot> unsharded;
  for (StageSearch &search : searches) {
    const std::vector<unsigned> worlds =
        search.batches().count(batch) ? search.worldsOf(batch) : std::vector<unsigned>();
    if (worlds.empty())
      continue;
    if (!session) {
      session.emplace(search.optionsOf(batch));
      if (!isFirst)
        session->leaveOutVerifiers();
      if (!session->isValid() || failed(session->run(Phase::Precision)))
        return failure();
      unsharded = session->snapshot();
    } else {
      CompileOptions options = unsharded->options;
      options.zero = search.stage();
      session->restore(*unsharded, std::move(options));
    }
    if (failed(session->run(Phase::Shard)) || failed(search.measureBatch(*session, batch, worlds)))
      return failure();
  }
  return success();
}

LogicalResult searchStages(const PlanScope &scope, ArrayRef<StagePart> parts, std::vector<StageRows> &found) {
  std::vector<StageSearch> searches;
  std::set<uint64_t> batches;
  for (const StagePart &part : parts) {
    searches.emplace_back(scope, part);
    for (uint64_t batch : searches.back().batches())
      batches.insert(batch);
  }
  for (uint64_t batch : batches) {
    // Verifiers have seen the phases with the first micro-batch where nothing lies below the device, and see those of
    // the plan that is compiled in the end.
    const bool isFirst = batch == *batches.begin() && !parts.front().below && !parts.front().least;
    if (failed(searchBatch(searches, batch, isFirst)))
      return failure();
  }
  for (const StageSearch &search : searches)
    found.push_back(search.found());
  return success();
}

llvm::json::Value toJson(ArrayRef<StageRows> found) {
  llvm::json::Array all;
  for (const StageRows &stage : found) {
    llvm::json::Array rows, smallest;
    for (const TrainingChoice &choice : stage.rows)
      rows.push_back(report::toJson(choice));
    for (const TrainingChoice &choice : stage.smallest)
      smallest.push_back(report::toJson(choice));
    all.push_back(llvm::json::Object{{"rows", std::move(rows)}, {"smallest", std::move(smallest)}});
  }
  return all;
}

static LogicalResult readRows(const llvm::json::Value &value, StageRows &found) {
  const llvm::json::Object *object = value.getAsObject();
  if (!object)
    return failure();
  for (auto [name, list] : {std::pair("rows", &found.rows), std::pair("smallest", &found.smallest)}) {
    const llvm::json::Array *array = object->getArray(name);
    if (!array)
      return failure();
    for (const llvm::json::Value &each : *array) {
      std::optional<TrainingChoice> choice = report::choiceFromJson(each);
      if (!choice)
        return failure();
      list->push_back(std::move(*choice));
    }
  }
  return success();
}

LogicalResult fromJson(StringRef text, std::vector<StageRows> &found) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(text);
  if (!value)
    return llvm::consumeError(value.takeError()), failure();
  const llvm::json::Array *array = value->getAsArray();
  return success(array && llvm::all_of(*array, [&](const llvm::json::Value &each) {
                   return succeeded(readRows(each, found.emplace_back()));
                 }));
}

} // namespace ztc::driver
