#include "compiler/Analysis/MeasureStep.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Memory/ArenaSize.h"
#include "runtime/Memory/StepBytes.h"
#include "runtime/Memory/Traffic.h"

using namespace mlir;

namespace ztc {

StatusOr<StepMeasure> measurePlan(const plan::Plan &plan, const PlanShape &shape, const MachineRates &rates) {
  StatusOr<MemoryPlan> memory = planMemory(plan, shape);
  if (!memory.isOk())
    return memory.status();
  return StepMeasure{memory->arenaBytes, planSeconds(plan, *memory, shape, rates), memory->host.bytes,
                     memory->disk.bytes};
}

StatusOr<StepTotals> totalPlan(const plan::Plan &plan, const PlanShape &shape) {
  StatusOr<MemoryPlan> memory = planMemory(plan, shape);
  if (!memory.isOk())
    return memory.status();
  StepTotals totals;
  totals.peakBytes = memory->arenaBytes;
  totals.seconds = planSeconds(plan, *memory, shape, ratesOf(shape));
  totals.sentBytes = sentBytes(plan, shape).parametersAndGradients();
  forEachTrainingStep(plan, shape, [&](const plan::Step &step, unsigned times, bool) {
    if (!isComputedOnDevice(workOf(plan, step)))
      return;
    totals.movedBytes += times * stepBytes(plan, *memory, shape, step);
    totals.flops += times * step.flops();
    totals.launches += times;
  });
  return totals;
}

FailureOr<const ProbedPlan *> StepProbe::plan(const RecomputeChoice &choice) {
  auto [found, isNew] = plans.try_emplace(choice.text());
  if (isNew) {
    FailureOr<ProbedPlan> plan = pipeline(module, choice);
    if (failed(plan)) {
      plans.erase(found);
      return failure();
    }
    found->second = std::move(*plan);
  }
  return &found->second;
}

FailureOr<StepMeasure> StepProbe::measure(const RecomputeChoice &choice, const PlanShape &shape,
                                          const MachineRates &rates) {
  const Place place = placeOf(choice, shape);
  if (const auto known = measures.find(place); known != measures.end())
    return known->second;
  FailureOr<const ProbedPlan *> made = plan(choice);
  if (failed(made))
    return failure();
  StatusOr<StepMeasure> measure = measurePlan((*made)->plan, shape, rates);
  if (!measure.isOk())
    return module.emitError(measure.status().message()), failure();
  return measures[place] = *measure;
}

FailureOr<double> StepProbe::seconds(const RecomputeChoice &choice, const PlanShape &shape, const MachineRates &rates) {
  FailureOr<const ProbedPlan *> made = plan(choice);
  if (failed(made))
    return failure();
  StatusOr<MemoryPlan> sizes = slotSizes((*made)->plan, shape);
  if (!sizes.isOk())
    return module.emitError(sizes.status().message()), failure();
  return planSeconds((*made)->plan, *sizes, shape, rates);
}

FailureOr<bool> StepProbe::isHopeless(const PlanShape &shape, uint64_t peakBytes) {
  FailureOr<const ProbedPlan *> made = plan(RecomputeChoice());
  if (failed(made))
    return failure();
  return persistentBytes((*made)->plan, shape) > peakBytes;
}

FailureOr<BudgetFit> StepProbe::fits(const RecomputeChoice &choice, const PlanShape &shape, uint64_t peakBytes) {
  const auto [known, isNew] = fitting.try_emplace({placeOf(choice, shape), peakBytes});
  if (!isNew)
    return known->second;
  FailureOr<const ProbedPlan *> made = plan(choice);
  if (failed(made))
    return failure();
  StatusOr<ArenaSize> arena = ArenaSize::of((*made)->plan, shape);
  if (!arena.isOk())
    return module.emitError(arena.status().message()), failure();
  const uint64_t least = arena->largestLiveBytes();
  return known->second = {least <= peakBytes && arena->bytes(peakBytes) <= peakBytes, least};
}

} // namespace ztc
