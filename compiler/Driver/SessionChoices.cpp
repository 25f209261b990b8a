// What a session decides for a budget: the runs that it holds for, what is left beside the reserve, which values are
// computed again, how many rows of logits stand at a time, and which gathered parameters and fp8 codes are kept.
#include "compiler/Analysis/KeptCodes.h"
#include "compiler/Analysis/KeptGathers.h"
#include "compiler/Analysis/LossRows.h"
#include "compiler/Analysis/ScoresWorkspace.h"
#include "compiler/Driver/Session.h"
#include "runtime/Format/DeviceReserve.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/AttentionWorkspace.h"
#include "runtime/Memory/ArenaSize.h"
#include <limits>

using namespace mlir;

namespace ztc::driver {

/// A plan runs on any number of ranks: where none is named, --mem holds for these.
static constexpr unsigned kWorldsOfANode[] = {1, 2, 3, 4, 8};

SmallVector<PlanShape> shapesOfBudget(const CompileOptions &options) {
  if (options.gpusGiven)
    return {shapeOf(options, options.gpus.front(), options.targets)};
  SmallVector<PlanShape> shapes;
  for (unsigned world : kWorldsOfANode)
    shapes.push_back(shapeOf(options, world, options.targets));
  return shapes;
}

uint64_t reserveBytes(const CompileOptions &options, const PlanShape &shape) {
  if (options.given.count("reserve"))
    return options.memoryReserve;
  uint64_t most = 0;
  if (shape.threads == 0)
    for (const std::string &target : options.targets)
      if (isGpuTarget(target))
        most = std::max(most, estimatedReserveBytes(target, shape.world));
  return most;
}

/// The largest of several.
static uint64_t reserveBytes(const CompileOptions &options, ArrayRef<PlanShape> shapes) {
  uint64_t most = 0;
  for (const PlanShape &shape : shapes)
    most = std::max(most, reserveBytes(options, shape));
  return most;
}

uint64_t budgetReserveBytes(const CompileOptions &options) {
  return reserveBytes(options, shapesOfBudget(options));
}

uint64_t arenaBudgetBytes(const CompileOptions &options, ArrayRef<PlanShape> shapes) {
  return options.memoryBudget - std::min(options.memoryBudget, reserveBytes(options, shapes));
}

uint64_t arenaBudgetBytes(const CompileOptions &options) {
  return arenaBudgetBytes(options, shapesOfBudget(options));
}

FailureOr<BudgetFit> fitsBudget(StepProbe &probe, const RecomputeChoice &choice, ArrayRef<PlanShape> shapes,
                                uint64_t budgetBytes) {
  BudgetFit all{true, 0};
  for (const PlanShape &shape : shapes) {
    FailureOr<BudgetFit> fit = probe.fits(choice, shape, budgetBytes);
    if (failed(fit))
      return failure();
    all = {all.fits && fit->fits, std::max(all.leastBytes, fit->leastBytes)};
    if (!all.fits)
      break;
  }
  return all;
}

FailureOr<RecomputeDecision> Session::decide(StepProbe &probe, ArrayRef<PlanShape> shapes,
                                             std::optional<uint64_t> budgetBytes) {
  MachineRates rates = ratesOf(shapes.front());
  FailureOr<SmallVector<PricedElement>> elements = recomputeElements(*moduleRef, rates);
  if (failed(elements))
    return failure();
  const uint64_t budget = budgetBytes.value_or(arenaBudgetBytes(opts, shapes));
  const auto measure = [&](const RecomputeChoice &choice) {
    FailureOr<StepMeasure> measure = probe.measure(choice, shapes.front(), rates);
    for (const PlanShape &shape : shapes.drop_front()) {
      FailureOr<StepMeasure> other = probe.measure(choice, shape, rates);
      if (failed(measure) || failed(other))
        return FailureOr<StepMeasure>(failure());
      measure->peakBytes = std::max(measure->peakBytes, other->peakBytes);
    }
    return measure;
  };
  const auto fits = [&](const RecomputeChoice &choice) { return fitsBudget(probe, choice, shapes, budget); };
  return chooseRecomputed(*elements, budget, measure, fits);
}

LogicalResult Session::grow(PlanKeeper keep, plan::Plan &plan, std::optional<PlanShape> shape) {
  SmallVector<PlanShape> shapes = shape ? SmallVector<PlanShape>{*shape} : shapesOfBudget(opts);
  std::optional<uint64_t> budget;
  if (opts.memoryBudget)
    budget = arenaBudgetBytes(opts, shapes);
  // A run may make more micro-steps than were asked about: their accumulators are part of the peak.
  for (PlanShape shape : SmallVector<PlanShape>(shapes))
    if (shape.accumulate == 1) {
      shape.accumulate = 2;
      shapes.push_back(shape);
    }
  if (Status grown = keep(plan, shapes, budget); !grown.isOk())
    return emitError(UnknownLoc::get(context.get())) << grown.message();
  return success();
}

LogicalResult Session::chooseLossRows(plan::Plan &plan, std::optional<PlanShape> shape) {
  if (opts.lossRows)
    return setLossRows(plan, opts.lossRows), success();
  if (failed(grow(growLossRows, plan, shape)))
    return failure();
  // Said as the option that gives the same bits again.
  const bool onGpu = (shape ? *shape : shapesOfBudget(opts).front()).threads == 0;
  if (const uint64_t rows = trainingLoss(plan).rows; rows && onGpu)
    (*plan.mutable_options())["loss-rows"] = std::to_string(rows);
  return success();
}

LogicalResult Session::chooseKept(Keeping keeping, PlanKeeper keep, plan::Plan &plan, std::optional<PlanShape> shape) {
  if (keeping == Keeping::None || (keeping == Keeping::Auto && !opts.memoryBudget))
    return success();
  const SmallVector<PlanShape> shapes = shape ? SmallVector<PlanShape>{*shape} : shapesOfBudget(opts);
  std::optional<uint64_t> budget;
  if (keeping == Keeping::Auto)
    budget = arenaBudgetBytes(opts, shapes);
  if (Status kept = keep(plan, shapes, budget); !kept.isOk())
    return emitError(UnknownLoc::get(context.get())) << kept.message();
  return success();
}

LogicalResult Session::chooseKeptGathers(plan::Plan &plan, std::optional<PlanShape> shape) {
  return chooseKept(opts.keepGathered, keepGathers, plan, shape);
}

LogicalResult Session::chooseKeptCodes(plan::Plan &plan, std::optional<PlanShape> shape) {
  return chooseKept(opts.keepFp8Weights, keepCodes, plan, shape);
}

LogicalResult Session::chooseLives(plan::Plan &plan, std::optional<PlanShape> shape) {
  return success(succeeded(chooseLossRows(plan, shape)) && succeeded(chooseKeptGathers(plan, shape)) &&
                 succeeded(chooseKeptCodes(plan, shape)) && succeeded(grow(growScoresWorkspace, plan, shape)));
}

FailureOr<StepMeasure> Session::measure(StepProbe &probe, const RecomputeChoice &choice, const PlanShape &shape,
                                        const MachineRates &rates) {
  FailureOr<const ProbedPlan *> probed = probe.plan(choice);
  if (failed(probed))
    return failure();
  plan::Plan plan = (*probed)->plan;
  if (failed(chooseLives(plan, shape)))
    return failure();
  StatusOr<StepMeasure> measured = measurePlan(plan, shape, rates);
  if (!measured.isOk())
    return emitError(UnknownLoc::get(context.get())) << measured.status().message();
  return *measured;
}

FailureOr<double> Session::leastSeconds(StepProbe &probe, const PlanShape &shape, const MachineRates &rates) {
  FailureOr<const ProbedPlan *> probed = probe.plan(RecomputeChoice());
  if (failed(probed))
    return failure();
  plan::Plan plan = (*probed)->plan;
  setLossRows(plan, opts.lossRows ? opts.lossRows : std::numeric_limits<uint64_t>::max());
  setScoresWorkspace(plan, std::numeric_limits<uint64_t>::max());
  Status kept = opts.keepGathered == Keeping::None ? Status::ok() : keepGathers(plan, shape, std::nullopt);
  if (kept.isOk() && opts.keepFp8Weights != Keeping::None)
    kept = keepCodes(plan, shape, std::nullopt);
  StatusOr<MemoryPlan> sizes = kept.isOk() ? slotSizes(plan, shape) : StatusOr<MemoryPlan>(kept);
  if (!sizes.isOk())
    return emitError(UnknownLoc::get(context.get())) << sizes.status().message();
  return planSeconds(plan, *sizes, shape, rates);
}

} // namespace ztc::driver
