#include "passes/Schedule/Passes.h"

void ztc::populateSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options) {
  pm.addPass(createUpdateInBackward());
  pm.addPass(createOrderSteps());
  OverlapCollectivesOptions overlap;
  overlap.prefetch = options.prefetch;
  pm.addPass(createOverlapCollectives(overlap));
  pm.addPass(createPlaceUpdates());
  pm.addPass(createOrderCollectives());
  pm.addPass(createAssignMatrices());
}
