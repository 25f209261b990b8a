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
    ChooseFp8ProductsOptions products;
    products.gradients = options.fp8Gradients;
    products.scaling = options.fp8Scaling;
    products.keep.assign(options.keepBf16.begin(), options.keepBf16.end());
    pm.addPass(createChooseFp8Products(products));
  }
  // In fp32 there is nothing to fold, and nothing may move.
  if (options.precision == StoragePrecision::Fp32)
    return;
  pm.addPass(mlir::createCanonicalizerPass());
  // Who wants what PyTorch rounds twice rounded once says so: --pass-option=ztc-fuse-biases.enabled=true.
  pm.addPass(createFuseBiases({/*enabled=*/false}));
  // And GELU of products with their biases: --pass-option=ztc-fuse-activations.enabled=true.
  pm.addPass(createFuseActivations({/*enabled=*/false}));
  // The same of residuals, which a product with its bias can add too: --pass-option=ztc-fuse-residuals.enabled=true.
  pm.addPass(createFuseResiduals({/*enabled=*/false}));
}
