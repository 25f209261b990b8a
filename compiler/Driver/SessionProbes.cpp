// Plans without machine code that a session makes to measure them.
#include "compiler/Analysis/LossRows.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Driver/Offload.h"
#include "compiler/Driver/Pipeline.h"
#include "compiler/Driver/Session.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace ztc::driver {

StepProbe Session::probe() {
  if (!offloadProbe)
    return freshProbe();
  StepProbe known = std::move(*offloadProbe);
  offloadProbe.reset();
  return known;
}

std::shared_ptr<ProbeSteps> Session::sharedSteps() {
  if (!probeSteps)
    probeSteps = std::make_shared<ProbeSteps>(/*isWhole=*/!opts.plugins.empty() || !opts.patterns.empty());
  return probeSteps;
}

StepProbe Session::freshProbe() {
  return StepProbe(*moduleRef, [this, steps = sharedSteps()](ModuleOp sharded, const RecomputeChoice &choice) {
    return probe(*steps, sharded, choice);
  });
}

FailureOr<ProbedPlan> Session::probe(ProbeSteps &steps, ModuleOp sharded, const RecomputeChoice &choice) {
  if (isSearching())
    opts.recomputeChoice = choice;
  Remarks::Silence silence(remarks); // what is tried here is not what is done
  const auto run = [&](ModuleOp module, ArrayRef<Phase> phases) -> LogicalResult {
    PassManager pm(context.get(), ModuleOp::getOperationName());
    pm.enableVerifier(false); // the plan that is kept goes through all phases again
    for (Phase phase : phases)
      if (phase == Phase::Plan)
        populatePlanPipeline(pm);
      else if (failed(addPhaseWithHooks(phase, pm)))
        return failure();
    return pm.run(module);
  };
  FailureOr<ProbeSteps::Step> step = steps.step(sharded, choice.text(), opensSpaces(opts), run);
  if (failed(step))
    return failure();
  PassManager edits(context.get(), ModuleOp::getOperationName());
  edits.enableVerifier(false);
  addPlanEdits(edits, opts);
  if (failed(edits.run(*step->module)))
    return failure();
  PlanOptions options = planOptions(/*withKernels=*/false);
  options.withContents = false; // tables of some MiB, and files that would be read for each choice
  FailureOr<plan::Plan> plan = planOf(*step->module, options);
  if (failed(plan))
    return failure();
  if (opts.lossRows)
    setLossRows(*plan, opts.lossRows);
  return ProbedPlan{std::move(*plan), step->againFlops};
}

} // namespace ztc::driver
