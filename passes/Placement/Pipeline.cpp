#include "passes/Kernels/Passes.h"
#include "passes/Placement/Passes.h"

void ztc::populateAssignPipeline(mlir::OpPassManager &pm, const AssignOptions &options) {
  pm.addPass(createPlanKernels());
  AssignSlotsOptions pass;
  pass.chunkBytes = options.chunkBytes;
  pass.attentionBlock = options.attentionBlock;
  pass.stagingBytes = options.stagingBytes;
  pm.addPass(createAssignSlots(pass));
}

void ztc::populateRoundedGradientsPipeline(mlir::OpPassManager &pm) {
  pm.addPass(createRoundInProducts());
}
