#include "passes/Sharding/Passes.h"

void ztc::populateShardPipeline(mlir::OpPassManager &pm, const ShardOptions &options) {
  pm.addPass(createFormBuckets());
}
