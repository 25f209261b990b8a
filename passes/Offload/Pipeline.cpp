#include "passes/Offload/Passes.h"

void ztc::populateOffloadPipeline(mlir::OpPassManager &pm, const OffloadChoice &choice) {
  pm.addPass(createPlaceBelow({choice.text()}));
  pm.addPass(createMoveGathers());
  pm.addPass(createStreamUpdate());
}
