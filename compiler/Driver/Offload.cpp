#include "compiler/Driver/Offload.h"
#include "compiler/Driver/Session.h"
#include "runtime/Format/PlanValidator.h"

using namespace mlir;

namespace ztc::driver {

std::vector<OffloadItem> offloadItems(const plan::Plan &plan, ArrayRef<PlanShape> shapes) {
  std::vector<OffloadItem> items;
  const auto bytesOf = [&](uint32_t slot) {
    uint64_t most = 0;
    for (const PlanShape &shape : shapes)
      if (slot < uint32_t(plan.slots_size()))
        most = std::max(most, sizeBytes(plan.slots(int(slot)).size(), shape));
    return (most + kDiskAlignment - 1) / kDiskAlignment * kDiskAlignment;
  };
  for (const plan::Bucket &bucket : plan.buckets()) {
    uint64_t bytes = 0;
    for (const plan::Bucket::State &state : bucket.states())
      bytes += bytesOf(state.slot());
    if (bucket.states_size())
      items.push_back({&OffloadChoice::states, bytes});
  }
  for (const plan::Bucket &bucket : plan.buckets())
    if (bucket.master_slot() != kAbsent)
      items.push_back({&OffloadChoice::masters, bytesOf(bucket.master_slot())});
  if (plan.zero() == 3)
    for (bool trainable : {false, true})
      for (const plan::Bucket &bucket : plan.buckets())
        if (bucket.trainable() == trainable)
          items.push_back({&OffloadChoice::parameters, bytesOf(bucket.parameter_slot())});
  return items;
}

std::optional<OffloadChoice> placeFirst(ArrayRef<OffloadItem> items, size_t count, const CompileOptions &options) {
  OffloadChoice choice;
  uint64_t host = 0, disk = 0;
  bool isHostFull = options.hostMemory == 0;
  for (const OffloadItem &item : items.take_front(count)) {
    OffloadChoice::Share &share = choice.*item.kind;
    // Of each kind those in the host's memory come first.
    if (!isHostFull && host + item.bytes <= options.hostMemory) {
      host += item.bytes;
      ++share.host;
      continue;
    }
    isHostFull = true;
    if (options.disk.empty() || (options.diskMemory && disk + item.bytes > options.diskMemory))
      return std::nullopt;
    disk += item.bytes;
    ++share.disk;
  }
  return choice;
}

LogicalResult Session::chooseOffload() {
  if (!opensSpaces(opts) || opts.offloadChosen || (done && *done >= Phase::Recompute))
    return success();
  opts.offloadChosen = true;
  opts.offload = {};
  const SmallVector<PlanShape> shapes = budgetShapes();
  const MachineRates rates = ratesOf(shapes.front());
  // With everything on the device, and nothing computed again that no option asks for.
  StepProbe kept = probe();
  FailureOr<const ProbedPlan *> plain = kept.plan(RecomputeChoice());
  if (failed(plain))
    return failure();
  const std::vector<OffloadItem> items = offloadItems((*plain)->plan, shapes);
  size_t most = items.size();
  while (most && !placeFirst(items, most, opts))
    --most;
  if (!opts.memoryBudget) { // whatever has room below
    opts.offload = *placeFirst(items, most, opts);
    return success();
  }
  const uint64_t reserve = budgetReserveBytes(opts), budget = opts.memoryBudget - std::min(opts.memoryBudget, reserve);
  // Peak and seconds where the first `count` items lie below.
  const auto measure = [&](size_t count) -> FailureOr<StepMeasure> {
    opts.offload = *placeFirst(items, count, opts);
    StepProbe moved = probe();
    FailureOr<StepMeasure> all = moved.measure(RecomputeChoice(), shapes.front(), rates);
    for (const PlanShape &shape : ArrayRef(shapes).drop_front()) {
      FailureOr<StepMeasure> other = moved.measure(RecomputeChoice(), shape, rates);
      if (failed(all) || failed(other))
        return failure();
      all->peakBytes = std::max(all->peakBytes, other->peakBytes);
    }
    return all;
  };
  FailureOr<StepMeasure> none = measure(0), all = measure(most);
  if (failed(none) || failed(all))
    return failure();
  if (none->peakBytes <= budget) { // it fits as it is
    opts.offload = {};
    return success();
  }
  opts.offload = *placeFirst(items, most, opts);
  if (all->peakBytes > budget)
    return success(); // and the search for what to compute again goes on from there
  size_t below = 0, above = most;
  StepMeasure best = *all;
  while (above - below > 1) {
    const size_t middle = (below + above) / 2;
    FailureOr<StepMeasure> tried = measure(middle);
    if (failed(tried))
      return failure();
    (tried->peakBytes <= budget ? above : below) = middle;
    if (tried->peakBytes <= budget)
      best = *tried;
  }
  const OffloadChoice found = *placeFirst(items, above, opts);
  opts.offload = {};
  if (isSearching()) {
    // Computing again may cost less than moving.
    StepProbe again = probe();
    FailureOr<RecomputeDecision> decision = decide(again, shapes);
    if (failed(decision))
      return failure();
    if (decision->fits && decision->chosen.seconds <= best.seconds)
      return success();
  }
  opts.offload = found;
  return success();
}

} // namespace ztc::driver
