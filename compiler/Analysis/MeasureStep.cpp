#include "compiler/Analysis/MeasureStep.h"

using namespace mlir;

namespace ztc {

StatusOr<StepMeasure> measurePlan(const plan::Plan &plan, const PlanShape &shape, const MachineRates &rates) {
  StatusOr<MemoryPlan> memory = planMemory(plan, shape);
  if (!memory.isOk())
    return memory.status();
  return StepMeasure{memory->arenaBytes, planSeconds(plan, *memory, shape, rates)};
}

FailureOr<const ProbedPlan *> StepProbe::plan(const RecomputeChoice &choice) {
  auto [found, isNew] = plans.try_emplace(choice.text());
  if (isNew) {
    OwningOpRef<ModuleOp> copy(module.clone());
    FailureOr<ProbedPlan> plan = pipeline(*copy, choice);
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
  FailureOr<const ProbedPlan *> made = plan(choice);
  if (failed(made))
    return failure();
  StatusOr<StepMeasure> measure = measurePlan((*made)->plan, shape, rates);
  if (!measure.isOk())
    return module.emitError(measure.status().message()), failure();
  return *measure;
}

} // namespace ztc
