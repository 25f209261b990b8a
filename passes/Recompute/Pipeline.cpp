#include "passes/Recompute/Passes.h"

void ztc::populateRecomputePipeline(mlir::OpPassManager &pm, const RecomputeOptions &options) {
  if (options.level.empty() || (options.level == "choice" && options.choice.isEmpty()))
    return;
  MarkRecomputedOptions mark;
  mark.level = options.level;
  mark.choice = options.choice.text();
  pm.addPass(createMarkRecomputed(mark));
  pm.addPass(createCloneRecomputed());
}
