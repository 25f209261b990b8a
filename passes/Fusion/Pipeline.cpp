#include "passes/Fusion/Passes.h"

void ztc::populateFusePipeline(mlir::OpPassManager &pm, const FuseOptions &options) {
  pm.addPass(createExpandOrthogonalizations());
  pm.addPass(createDuplicateWidenings());
  pm.addPass(createDuplicateCheap());
  pm.addPass(createDuplicateBroadcasts());
  pm.addPass(createDuplicateSlices());
  pm.addPass(createGroupMacroOps());
  pm.addPass(createGroupPrimitiveOps());
  pm.addPass(createFuseAmax());
  pm.addPass(createFuseCodes());
}
