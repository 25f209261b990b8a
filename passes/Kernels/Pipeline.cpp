#include "passes/Kernels/Passes.h"

void ztc::populateCodegenPipeline(mlir::OpPassManager &pm, const CodegenOptions &options) {
  EmitKernelsOptions pass;
  pass.targets.assign(options.targets.begin(), options.targets.end());
  pm.addPass(createEmitKernels(pass));
}
