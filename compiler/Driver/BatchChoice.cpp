#include "compiler/Driver/BatchChoice.h"
#include "compiler/Driver/Commands.h"
#include "compiler/Driver/Session.h"
#include "compiler/Driver/SmallModel.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace ztc::driver {
namespace {

/// The largest power of two from which on a micro-batch is tried.
constexpr uint64_t kLargestBatch = 64;
/// A rate that is so near the best one is as good: a larger micro-batch takes more memory.
constexpr double kNearlyBest = 0.98;

struct Measured {
  uint64_t batch;
  double rowsPerSecond;
};

/// A step of this micro-batch; nothing in `measured` where it does not fit --mem.
LogicalResult measure(const CompileOptions &options, uint64_t batch, uint64_t rows, std::vector<Measured> &measured) {
  CompileOptions used = withoutOutputs(options);
  used.batch = batch;
  Session session(used);
  if (!session.isValid() || failed(session.run(Phase::Shard)))
    return failure();
  StepProbe probe = session.probe();
  PlanShape shape = shapeOf(used, used.gpus.front(), used.targets);
  shape.accumulate = uint32_t(rows / batch);
  RecomputeChoice choice;
  if (session.isSearching()) {
    FailureOr<RecomputeDecision> decision = session.decide(probe, shape);
    if (failed(decision))
      return failure();
    if (!decision->fits)
      return success();
    choice = decision->choice;
  }
  FailureOr<StepMeasure> step = session.measure(probe, choice, shape, ratesOf(shape));
  if (failed(step))
    return failure();
  measured.push_back({batch, double(rows) / step->seconds});
  return success();
}

} // namespace

std::vector<uint64_t> microBatches(uint64_t rows) {
  std::vector<uint64_t> all;
  for (uint64_t power = 1; power <= std::min(rows, kLargestBatch); power *= 2)
    for (uint64_t batch = power; batch < std::min(2 * power, rows + 1); ++batch)
      if (rows % batch == 0) {
        all.push_back(batch);
        break;
      }
  return all;
}

LogicalResult chooseBatch(CompileOptions &options, int &status) {
  status = 2;
  if (!options.choosesBatch && !options.globalBatch)
    return success();
  if (!options.globalBatch) {
    fail("--batch=auto needs --global-batch=N, the rows of a step: so it changes the speed and not what is learnt");
    return failure();
  }
  if (options.given.count("accumulate")) {
    fail("--global-batch and --accumulate exclude each other: micro-steps follow from the rows of a step");
    return failure();
  }
  const uint64_t world = options.gpus.front(),
                 smallest = options.choosesBatch ? 1 : std::max<uint64_t>(1, options.batch);
  if (options.globalBatch % (world * smallest)) {
    fail(llvm::formatv("--global-batch={0} cannot be shared by {1} rank{2}{3}", options.globalBatch, world,
                       world == 1 ? "" : "s",
                       smallest > 1 ? llvm::formatv(" in micro-batches of {0}", smallest).str() : std::string()));
    return failure();
  }
  const uint64_t rows = options.globalBatch / world;
  const bool isWhole = options.updateTime == UpdateTime::InBackward; // a step is one micro-step
  if (options.choosesBatch && isWhole)
    options.batch = rows;
  else if (options.choosesBatch) {
    std::vector<Measured> measured;
    for (uint64_t batch : microBatches(rows)) {
      const size_t before = measured.size();
      if (failed(measure(options, batch, rows, measured)))
        return status = 1, failure();
      if (measured.size() == before) // a larger one needs more
        break;
    }
    if (measured.empty()) {
      status = 1;
      fail("--batch=auto: not even rows one by one fit --mem; ztc memory says what would help");
      return failure();
    }
    double best = 0;
    for (const Measured &one : measured)
      best = std::max(best, one.rowsPerSecond);
    for (const Measured &one : measured)
      if (one.rowsPerSecond >= kNearlyBest * best) {
        options.batch = one.batch;
        break;
      }
  }
  options.accumulate = unsigned(rows / std::max<uint64_t>(1, options.batch));
  if (isWhole && options.accumulate > 1) {
    fail(llvm::formatv("--update=in-backward: a step is one micro-step, --global-batch={0} on {1} ranks of --batch={2} "
                       "makes {3}",
                       options.globalBatch, world, options.batch, options.accumulate));
    return failure();
  }
  if (options.choosesBatch)
    llvm::errs() << "ztc: --batch=auto: micro-batches of " << options.batch << ", " << options.accumulate
                 << " of them a step: ztc-run --accumulate=" << options.accumulate << "\n";
  return success();
}

} // namespace ztc::driver
