#include "passes/Sharding/Passes.h"

void ztc::populateShardPipeline(mlir::OpPassManager &pm, const ShardOptions &options) {
  if (!options.zero) {
    pm.addPass(createFormBuckets());
    pm.addPass(createMergeProducts());
    return;
  }
  ChooseStageOptions stage;
  stage.zero = *options.zero;
  pm.addPass(createChooseStage(stage));
  pm.addPass(createFormBuckets());
  pm.addPass(createMergeProducts());
  pm.addPass(createPartitionStates());
  pm.addPass(createInsertCollectives());
}
