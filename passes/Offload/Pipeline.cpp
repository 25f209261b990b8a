#include "passes/Offload/Passes.h"

void ztc::populateOffloadPipeline(mlir::OpPassManager &pm, const OffloadChoice &choice) {
  pm.addPass(createPlaceBelow({choice.text()}));
  pm.addPass(createMoveGathers());
  pm.addPass(createStageSlots({choice.text()}));
  pm.addPass(createBringParameters({choice.text()}));
  pm.addPass(createUpdateOnHost({choice.text()}));
  pm.addPass(createStreamUpdate());
  pm.addPass(createNameMovedSlots());
}
