#include "passes/Recompute/Passes.h"

void ztc::populateRecomputePipeline(mlir::OpPassManager &pm, const RecomputeOptions &options) {
  if (options.level.empty())
    return;
  MarkRecomputedOptions mark;
  mark.level = options.level;
  pm.addPass(createMarkRecomputed(mark));
  pm.addPass(createCloneRecomputed());
}
