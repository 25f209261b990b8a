#include "compiler/Driver/Trial.h"
#include "compiler/Driver/Offload.h"

using namespace mlir;

namespace ztc::driver {

std::optional<CompileOptions> onRanks(CompileOptions options, unsigned world) {
  options.gpus = {world};
  options.gpusGiven = true;
  if (options.globalBatch) {
    const uint64_t rows = world * std::max<uint64_t>(1, options.batch);
    const uint64_t accumulate = options.globalBatch / rows;
    const bool isWhole = options.updateTime == UpdateTime::InBackward; // a step is one micro-step
    if (options.globalBatch % rows || (isWhole && accumulate > 1))
      return std::nullopt;
    options.accumulate = unsigned(accumulate);
  }
  return options;
}

Trial::Trial(CompileOptions given) : session(std::move(given)) {
  if (!session.isValid() || failed(session.run(Phase::Shard)))
    return;
  options = session.options();
  if (opensSpaces(options))
    sharded = session.snapshot();
  else
    probe.emplace(session.probe());
}

std::optional<StepMeasure> Trial::smallest(const CompileOptions &used) {
  const SmallVector<PlanShape> shapes = shapesOfBudget(used);
  const auto smallestOf = [&](StepProbe &probe) -> std::optional<StepMeasure> {
    FailureOr<RecomputeDecision> decision = session.decide(probe, shapes, 0);
    return succeeded(decision) ? std::optional(decision->chosen) : std::nullopt;
  };
  if (probe)
    return smallestOf(*probe);
  if (!sharded)
    return std::nullopt;
  session.restore(*sharded, used);
  if (failed(session.chooseOffload()))
    return std::nullopt;
  StepProbe moved = session.probe();
  return smallestOf(moved);
}

std::optional<uint64_t> Trial::smallestPeak() {
  const std::optional<StepMeasure> step = smallest(options);
  return step ? std::optional(step->peakBytes) : std::nullopt;
}

std::optional<Trial::Ranks> Trial::moreRanks(unsigned first) {
  std::optional<Ranks> least;
  for (unsigned ranks = first; ranks <= std::max(kMostTriedRanks, first); ranks *= 2) {
    const std::optional<CompileOptions> used = onRanks(options, ranks);
    const std::optional<StepMeasure> step = used ? smallest(*used) : std::nullopt;
    if (!step || (least && step->peakBytes >= least->peakBytes))
      break;
    least = Ranks{ranks, step->peakBytes, step->peakBytes <= arenaBudgetBytes(*used)};
    if (least->fits)
      break;
  }
  return least;
}

std::optional<uint64_t> Trial::leastRoomBelow(bool inFile) {
  if (!probe && !sharded)
    return std::nullopt;
  if (sharded)
    session.restore(*sharded, options);
  FailureOr<std::optional<uint64_t>> least = session.leastRoomBelow(inFile);
  return succeeded(least) ? *least : std::nullopt;
}

int64_t Trial::attribute(StringRef name) {
  auto value = probe || sharded ? session.module()->getAttrOfType<IntegerAttr>(name) : IntegerAttr();
  return value ? value.getInt() : 0;
}

} // namespace ztc::driver
