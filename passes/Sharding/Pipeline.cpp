#include "passes/Sharding/Passes.h"

void ztc::populateShardPipeline(mlir::OpPassManager &pm, const ShardOptions &options) {
  if (!options.onMesh) {
    pm.addPass(createFormBuckets());
    return;
  }
  pm.addPass(createChooseStage({options.zero}));
  pm.addPass(createFormBuckets());
  pm.addPass(createPartitionStates());
  pm.addPass(createInsertCollectives());
}
