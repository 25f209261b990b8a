#include "compiler/Dialect/Graph/Optimizers.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Autodiff/Passes.h"

namespace ztc {

void populateAutodiffPipeline(mlir::OpPassManager &pm, const AutodiffOptions &options) {
  if (!options.freeze.empty())
    pm.addPass(createFreezeParameters({options.freeze}));
  pm.addPass(createMarkDecay({options.noDecay}));
  if (!options.rates.empty()) {
    MarkRatesOptions rates;
    rates.rates.assign(options.rates.begin(), options.rates.end());
    pm.addPass(createMarkRates(rates));
  }
  if (const graph::OptimizerRule *rule = graph::findOptimizer(options.optimizer); rule && rule->orthogonalizes)
    pm.addPass(createMarkMatrices({wordOf(options.adjustLr)}));
  pm.addPass(createFoldEmptyTensors());
  pm.addPass(createNarrowIndices());
  pm.addPass(createAttachLoss({options.lossWeights}));
  if (options.afterLoss)
    options.afterLoss(pm);
  pm.addPass(createBuildGenerate());
  if (options.decode)
    pm.addPass(createDeriveDecode());
  if (options.pack)
    pm.addPass(createPackDocuments());
  pm.addPass(createDropForward());
  pm.addPass(createRouteExperts());
  pm.addPass(createGroupGatheredProducts());
  pm.addPass(createDifferentiate());
  pm.addPass(createWriteOutRecurrences());
  pm.addPass(createExpandDropout());
  pm.addPass(createBuildUpdate({options.optimizer, options.updateInBackward}));
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
}

} // namespace ztc
