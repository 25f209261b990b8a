#include "passes/Precision/Passes.h"
#include "passes/Sharding/Passes.h"

void ztc::populateShardPipeline(mlir::OpPassManager &pm, const ShardOptions &options) {
  const auto mergeProducts = [&] {
    pm.addPass(createFormBuckets());
    pm.addPass(createJoinStacks());
    pm.addPass(createMergeProducts());
    pm.addPass(createQuantizeProducts());
  };
  if (!options.zero)
    return mergeProducts();
  ChooseStageOptions stage;
  stage.zero = *options.zero;
  pm.addPass(createChooseStage(stage));
  mergeProducts();
  pm.addPass(createPartitionStates());
  pm.addPass(createInsertCollectives());
  pm.addPass(createGatherCodes());
}
