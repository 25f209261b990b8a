#include "compiler/Driver/Offload.h"
#include "compiler/Analysis/KeptTensors.h"
#include "compiler/Codegen/Codegen.h"
#include "compiler/Driver/Session.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Memory/ArenaSize.h"
#include "llvm/ADT/ScopeExit.h"

using namespace mlir;

namespace ztc::driver {

/// By block the bytes of what its forward leaves for its backward (passes/Offload/StageSlots.cpp, which moves it), of
/// tensors of at least one part in kSmallestKeptShare of the largest.
static std::vector<uint64_t> keptActivationBytes(const plan::Plan &plan) {
  const std::vector<KeptTensor> kept = keptTensors(plan);
  uint64_t largest = 0;
  for (const KeptTensor &tensor : kept)
    largest = std::max(largest, tensor.bytes);
  std::vector<uint64_t> blocks;
  for (const KeptTensor &tensor : kept) {
    if (tensor.bytes * kSmallestKeptShare < largest)
      continue;
    blocks.resize(std::max(blocks.size(), size_t(tensor.layer) + 1));
    blocks[size_t(tensor.layer)] += roundUp(tensor.bytes, kDiskAlignment);
  }
  std::erase(blocks, 0);
  return blocks;
}

std::vector<OffloadItem> offloadItems(const plan::Plan &plan, ArrayRef<PlanShape> shapes, bool hasBudget) {
  std::vector<OffloadItem> items;
  const auto bytesOf = [&](uint32_t slot) {
    uint64_t most = 0;
    for (const PlanShape &shape : shapes)
      if (slot < uint32_t(plan.slots_size()))
        most = std::max(most, sizeBytes(plan.slots(int(slot)).size(), shape));
    return roundUp(most, kDiskAlignment);
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
  for (bool trainable : {false, true})
    for (const plan::Bucket &bucket : plan.buckets())
      if (bucket.trainable() == trainable)
        items.push_back({&OffloadChoice::parameters, bytesOf(bucket.parameter_slot())});
  if (!hasBudget)
    return items;
  for (const plan::Bucket &bucket : plan.buckets())
    if (bucket.trainable() && bucket.gradient_slot() < uint32_t(plan.slots_size())) {
      uint64_t bytes = bytesOf(bucket.gradient_slot());
      if (const uint32_t sum = plan.slots(int(bucket.gradient_slot())).same_as_if_accumulating())
        bytes += bytesOf(sum - 1);
      items.push_back({&OffloadChoice::gradients, bytes});
    }
  for (uint64_t bytes : keptActivationBytes(plan))
    items.push_back({&OffloadChoice::activations, bytes});
  return items;
}

static uint64_t bytesOf(ArrayRef<OffloadItem> items) {
  uint64_t bytes = 0;
  for (const OffloadItem &item : items)
    bytes += item.bytes;
  return bytes;
}

bool isHostTarget(StringRef target) {
  return target == "host" || llvm::is_contained(kHostTargets, target);
}

bool hasHostTarget(const CompileOptions &options) {
  return llvm::any_of(options.targets, isHostTarget);
}

uint64_t updateWindowBytes(const plan::Plan &plan) {
  constexpr uint64_t kSmallSlots = uint64_t(64) << 10;
  uint64_t all = 0, longest = 0, perElement = 0;
  for (const plan::Bucket &bucket : plan.buckets())
    if (bucket.trainable()) {
      all += bucket.elements();
      longest = std::max(longest, bucket.elements());
      uint64_t bytes = 0;
      for (uint32_t slot : {bucket.parameter_slot(), bucket.gradient_slot(), bucket.master_slot()})
        if (slot < uint32_t(plan.slots_size()))
          bytes += plan.slots(int(slot)).size().element_bytes();
      perElement = std::max(perElement, bytes);
    }
  return roundUp(std::min(updatePieceElements(all), longest), uint64_t(4096)) * perElement + kSmallSlots;
}

std::optional<OffloadChoice> placeFirst(ArrayRef<OffloadItem> items, size_t count, const CompileOptions &options,
                                        uint64_t windowBytes) {
  OffloadChoice choice;
  choice.updatesOnHost = windowBytes != 0;
  const uint64_t room = options.hostMemory - std::min(options.hostMemory, windowBytes);
  uint64_t host = 0, disk = 0;
  bool isHostFull = room == 0;
  for (const OffloadItem &item : items.take_front(count)) {
    OffloadChoice::Share &share = choice.*item.kind;
    // Of each kind those in the host's memory come first.
    if (!isHostFull && host + item.bytes <= room) {
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
  const SmallVector<PlanShape> shapes = shapesOfBudget(opts);
  const MachineRates rates = ratesOf(shapes.front());
  // With everything on the device, and nothing computed again that no option asks for.
  StepProbe kept = freshProbe();
  FailureOr<const ProbedPlan *> plain = kept.plan(RecomputeChoice());
  if (failed(plain))
    return failure();
  const std::vector<OffloadItem> items = offloadItems((*plain)->plan, shapes, opts.memoryBudget != 0);
  const uint64_t windows = opts.offloadUpdate == UpdatePlace::Host ? updateWindowBytes((*plain)->plan) : 0;
  const auto choiceOf = [&](size_t count) { return placeFirst(items, count, opts, windows); };
  size_t most = items.size();
  while (most && !choiceOf(most))
    --most;
  if (!opts.memoryBudget) { // whatever has room below
    opts.offload = *choiceOf(most);
    return chooseUpdatePlace(shapes);
  }
  const uint64_t budget = arenaBudgetBytes(opts);
  // Whether it fits, with nothing computed again, where the first `count` items lie below; by a probe of its own.
  const auto fits = [&](size_t count, StepProbe &moved) -> FailureOr<BudgetFit> {
    opts.offload = *choiceOf(count);
    return fitsBudget(moved, RecomputeChoice(), shapes, budget);
  };
  StepProbe nothingMoved = freshProbe(), foundProbe = freshProbe();
  FailureOr<BudgetFit> all = fits(most, foundProbe);
  if (failed(all))
    return failure();
  if (!opts.needsOffload) {
    FailureOr<BudgetFit> none = fits(0, nothingMoved);
    if (failed(none))
      return failure();
    if (none->fits) { // as it is
      opts.offload = {};
      offloadProbe.emplace(std::move(nothingMoved));
      return success();
    }
  }
  // As little as fits with nothing computed again that no option asks for.
  size_t above = most;
  std::optional<double> best; // seconds
  if (all->fits) {
    FailureOr<BudgetFit> none = fitsBudget(kept, RecomputeChoice(), shapes, budget);
    if (failed(none))
      return failure();
    const FailureOr<size_t> least = firstThatFits(
        0, most, none->leastBytes, budget, [&](size_t count) { return bytesOf(ArrayRef(items).take_front(count)); },
        [&](size_t count) -> FailureOr<BudgetFit> {
          StepProbe probe = freshProbe();
          FailureOr<BudgetFit> tried = fits(count, probe);
          if (succeeded(tried) && tried->fits)
            foundProbe = std::move(probe);
          return tried;
        });
    if (failed(least))
      return failure();
    above = *least;
    const FailureOr<double> seconds = foundProbe.seconds(RecomputeChoice(), shapes.front(), rates);
    if (failed(seconds))
      return failure();
    best.emplace(*seconds);
  }
  OffloadChoice found = *choiceOf(above);
  // Computing again may cost less than moving: nothing, or all of the first kinds.
  for (size_t count = opts.needsOffload ? 1 : 0; isSearching() && count < above; ++count) {
    if (count > 0 && items[count].kind == items[count - 1].kind)
      continue;
    StepProbe fresh = freshProbe();
    StepProbe &again = count == 0 ? nothingMoved : fresh;
    opts.offload = *choiceOf(count);
    const FailureOr<double> plain = again.seconds(RecomputeChoice(), shapes.front(), rates);
    if (failed(plain))
      return failure();
    // Computing again takes time: where moving what remains is slower already, no choice is worth a search. Nor is one
    // where what stays on the device all the time has no room.
    if (best && *plain > *best)
      continue;
    bool isHopeless = false;
    for (const PlanShape &shape : shapes) {
      FailureOr<bool> hopeless = again.isHopeless(shape, budget);
      if (failed(hopeless))
        return failure();
      isHopeless |= *hopeless;
    }
    if (isHopeless)
      continue;
    FailureOr<RecomputeDecision> decision = decide(again, shapes);
    if (failed(decision))
      return failure();
    if (decision->fits && (!best || decision->chosen.seconds <= *best)) {
      best = decision->chosen.seconds;
      found = opts.offload;
      foundProbe = std::move(again);
    }
  }
  offloadProbe.emplace(std::move(foundProbe));
  opts.offload = found; // and where nothing fits the search for what to compute again goes on from there
  return chooseUpdatePlace(shapes);
}

FailureOr<std::optional<uint64_t>> Session::leastRoomBelow(bool inFile) {
  const CompileOptions before = opts;
  llvm::scope_exit restore([&] { opts = before; });
  if (inFile)
    opts.diskMemory = 0; // as much as is wanted
  else
    opts.hostMemory = kAnyHostMemory;
  opts.offloadChosen = true;
  opts.offload = {};
  const SmallVector<PlanShape> shapes = shapesOfBudget(opts);
  const uint64_t budget = arenaBudgetBytes(opts);
  StepProbe kept = freshProbe();
  FailureOr<const ProbedPlan *> plain = kept.plan(RecomputeChoice());
  if (failed(plain))
    return failure();
  const std::vector<OffloadItem> items = offloadItems((*plain)->plan, shapes, /*hasBudget=*/true);
  const uint64_t windows = opts.offloadUpdate == UpdatePlace::Host ? updateWindowBytes((*plain)->plan) : 0;
  const auto fits = [&](size_t count) -> FailureOr<bool> {
    opts.offload = *placeFirst(items, count, opts, windows);
    StepProbe moved = freshProbe();
    for (const PlanShape &shape : shapes) {
      FailureOr<bool> hopeless = moved.isHopeless(shape, budget);
      if (failed(hopeless) || *hopeless)
        return failed(hopeless) ? hopeless : FailureOr<bool>(false);
    }
    FailureOr<BudgetFit> plainly = fitsBudget(moved, RecomputeChoice(), shapes, budget);
    if (failed(plainly) || plainly->fits)
      return failed(plainly) ? FailureOr<bool>(failure()) : FailureOr<bool>(true);
    FailureOr<RecomputeDecision> decision = decide(moved, shapes);
    return failed(decision) ? FailureOr<bool>(failure()) : FailureOr<bool>(decision->fits);
  };
  FailureOr<bool> all = fits(items.size());
  if (failed(all))
    return failure();
  if (!*all)
    return std::optional<uint64_t>();
  size_t below = 0, above = items.size(); // the last number known not to fit, and one that does
  while (above - below > 1) {
    const size_t middle = below + (above - below) / 2;
    FailureOr<bool> isEnough = fits(middle);
    if (failed(isEnough))
      return failure();
    (*isEnough ? above : below) = middle;
  }
  uint64_t bytes = 0, host = 0;
  const uint64_t room = inFile ? opts.hostMemory - std::min(opts.hostMemory, windows) : 0;
  bool isHostFull = room == 0;
  for (const OffloadItem &item : ArrayRef(items).take_front(above)) {
    isHostFull |= host + item.bytes > room;
    (isHostFull ? bytes : host) += item.bytes;
  }
  return std::optional(inFile ? bytes : bytes + windows);
}

FailureOr<double> Session::leastOffloadedSeconds(const PlanShape &shape, const MachineRates &rates) {
  const OffloadChoice before = opts.offload;
  llvm::scope_exit restore([&] { opts.offload = before; });
  opts.offload = {};
  StepProbe kept = freshProbe();
  FailureOr<const ProbedPlan *> plain = kept.plan(RecomputeChoice());
  if (failed(plain))
    return failure();
  const uint64_t budget = arenaBudgetBytes(opts, {shape}), persistent = persistentBytes((*plain)->plan, shape);
  const std::vector<OffloadItem> items = offloadItems((*plain)->plan, {shape}, /*hasBudget=*/true);
  size_t count = 0;
  for (uint64_t below = 0; count < items.size() && persistent > budget + below; ++count)
    below += items[count].bytes;
  // Where not even all of them have room below, nothing can be chosen; what has is moved less.
  std::optional<OffloadChoice> choice;
  while (!(choice = placeFirst(items, count, opts, 0)))
    --count;
  opts.offload = *choice;
  StepProbe moved = freshProbe();
  return leastSeconds(moved, shape, rates);
}

LogicalResult Session::chooseUpdatePlace(ArrayRef<PlanShape> shapes) {
  // On a CPU both are the same cores.
  if (opts.offloadUpdate != UpdatePlace::Auto || !opts.offload.states.host || !hasHostTarget(opts) ||
      shapes.front().threads)
    return success();
  const MachineRates rates = ratesOf(shapes.front());
  opts.offload.updatesOnHost = false;
  StepProbe streaming = probe();
  const FailureOr<StepMeasure> streamed = streaming.measure(RecomputeChoice(), shapes.front(), rates);
  opts.offload.updatesOnHost = true;
  StepProbe onHost = freshProbe();
  const FailureOr<StepMeasure> updated = onHost.measure(RecomputeChoice(), shapes.front(), rates);
  const FailureOr<const ProbedPlan *> plan = onHost.plan(RecomputeChoice());
  if (failed(streamed) || failed(updated) || failed(plan))
    return failure();
  const bool hasRoom = llvm::all_of(shapes, [&](const PlanShape &shape) { // for the windows
    StatusOr<MemoryPlan> memory = planMemory((*plan)->plan, shape);
    return memory.isOk() && memory->host.bytes <= opts.hostMemory;
  });
  opts.offload.updatesOnHost = hasRoom && updated->seconds < streamed->seconds;
  offloadProbe.emplace(std::move(opts.offload.updatesOnHost ? onHost : streaming));
  return success();
}

} // namespace ztc::driver
