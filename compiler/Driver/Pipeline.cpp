#include "compiler/Driver/Pipeline.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Driver/Offload.h"
#include "passes/Adapters/Passes.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Fusion/Passes.h"
#include "passes/Kernels/Passes.h"
#include "passes/Offload/Passes.h"
#include "passes/Placement/Passes.h"
#include "passes/Precision/Passes.h"
#include "passes/Quantization/Passes.h"
#include "passes/Recompute/Passes.h"
#include "passes/Schedule/Passes.h"
#include "passes/Sharding/Passes.h"
#include "passes/Verify/Passes.h"

using namespace mlir;

static_assert(int(ztc::FrozenFormat::Nf4) == int(ztc::graph::WeightFormat::Nf4) &&
              int(ztc::FrozenFormat::Int8) == int(ztc::graph::WeightFormat::Int8) &&
              int(ztc::FrozenFormat::Nf4Single) == int(ztc::graph::WeightFormat::Nf4Single) &&
              int(ztc::FrozenFormat::Mxfp4) == int(ztc::graph::WeightFormat::Mxfp4));

void ztc::driver::addPhase(Phase phase, OpPassManager &pm, const CompileOptions &options, const WithinPhases &within) {
  switch (phase) {
  case Phase::Import: // the importer has produced the module
    return;
  case Phase::Backward: {
    if (options.quantize != FrozenFormat::Plain)
      pm.addPass(createChooseQuantized({graph::WeightFormat(options.quantize)}));
    if (!options.adapter.empty() || !options.lora.empty())
      pm.addPass(createInsertAdapters());
    AutodiffOptions autodiff;
    autodiff.freeze = options.freezePattern;
    autodiff.noDecay = options.noDecayPattern;
    autodiff.rates = options.rates;
    autodiff.optimizer = options.optimizer;
    autodiff.adjustLr = options.adjustLrFn;
    autodiff.updateInBackward = options.updateTime == UpdateTime::InBackward;
    autodiff.decode = options.generate;
    autodiff.pack = options.pack;
    autodiff.lossWeights = options.lossWeights;
    autodiff.afterLoss = within.afterLoss;
    return populateAutodiffPipeline(pm, autodiff);
  }
  case Phase::Precision:
    return populatePrecisionPipeline(pm, {options.precision, options.optimizerState, options.keptFp32, options.masters,
                                          options.fp8Gradients, options.keptBf16, options.fp8Scaling});
  case Phase::Shard:
    if (options.quantize != FrozenFormat::Plain)
      pm.addPass(createQuantizeWeights());
    return populateShardPipeline(pm, {options.zero});
  case Phase::Recompute: {
    RecomputeOptions recompute;
    if (options.recompute != "auto" && options.recompute != "none")
      recompute.level = options.recompute;
    else if (options.recompute == "auto" && options.memoryBudget) {
      recompute.level = "choice";
      recompute.choice = options.recomputeChoice;
    }
    return populateRecomputePipeline(pm, recompute);
  }
  case Phase::Fuse:
    return populateFusePipeline(pm);
  case Phase::Schedule: {
    ScheduleOptions schedule;
    schedule.prefetch = options.prefetch.value_or(schedule.prefetch);
    return populateSchedulePipeline(pm, schedule);
  }
  case Phase::Assign:
    return populateAssignPipeline(pm);
  case Phase::Codegen: {
    CodegenOptions codegen;
    codegen.targets = options.targets;
    codegen.after = within.afterKernels;
    codegen.cache = options.kernelCache;
    return populateCodegenPipeline(pm, codegen);
  }
  case Phase::Plan:
    populatePlanPipeline(pm);
    return addPlanEdits(pm, options);
  }
}

void ztc::driver::addPlanEdits(OpPassManager &pm, const CompileOptions &options) {
  if (opensSpaces(options))
    populateOffloadPipeline(pm, options.offload);
  populateRoundedGradientsPipeline(pm);
}

void ztc::driver::addPhaseVerifier(Phase phase, OpPassManager &pm) {
  switch (phase) {
  case Phase::Import:
    pm.addPass(createVerifyImport());
    return;
  case Phase::Backward:
    pm.addPass(createVerifyBackward());
    return;
  case Phase::Precision:
    pm.addPass(createVerifyPrecision());
    return;
  case Phase::Shard:
    pm.addPass(createVerifyShard());
    return;
  case Phase::Recompute:
    // Clones read gathers too: what phase shard promises holds on.
    pm.addPass(createVerifyShard());
    pm.addPass(createVerifyRecompute());
    return;
  case Phase::Fuse:
    pm.addPass(createVerifyFuse());
    pm.addPass(createVerifyStorage());
    return;
  case Phase::Schedule:
    pm.addPass(createVerifySchedule());
    return;
  case Phase::Assign:
    pm.addPass(createVerifyAssign());
    return;
  case Phase::Codegen:
    pm.addPass(createVerifyCodegen());
    return;
  case Phase::Plan:
    pm.addPass(createVerifyPlan());
    return;
  }
}
