#include "mlir/Transforms/Passes.h"
#include "passes/Precision/Passes.h"

void ztc::populatePrecisionPipeline(mlir::OpPassManager &pm, const PrecisionOptions &options) {
  AssignStorageOptions storage;
  storage.precision = options.precision;
  storage.keep.assign(options.keep.begin(), options.keep.end());
  pm.addPass(createAssignStorage(storage));
  StoreMastersOptions masters;
  masters.state = options.optimizerState;
  masters.masters = options.masters;
  pm.addPass(createStoreMasters(masters));
  if (options.precision == StoragePrecision::Fp8) {
    QuantizeProductsOptions products;
    products.gradients = options.fp8Gradients;
    products.keep.assign(options.keepBf16.begin(), options.keepBf16.end());
    pm.addPass(createQuantizeProducts(products));
  }
  // In fp32 there is nothing to fold, and nothing may move.
  if (options.precision != StoragePrecision::Fp32)
    pm.addPass(mlir::createCanonicalizerPass());
}
