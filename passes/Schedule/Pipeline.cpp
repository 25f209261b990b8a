#include "passes/Schedule/Passes.h"

void ztc::populateSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options) {
  pm.addPass(createOrderSteps());
}
