#include "passes/Kernels/Passes.h"
#include "passes/Verify/Passes.h"

void ztc::populateCodegenPipeline(mlir::OpPassManager &pm, const CodegenOptions &options) {
  auto reached = [&](KernelLevel level) {
    if (options.after)
      options.after(pm, level);
    pm.addPass(createVerifyKernels({level}));
  };
  MapKernelsOptions map;
  map.targets.assign(options.targets.begin(), options.targets.end());
  pm.addPass(createMapKernels(map));
  reached(KernelLevel::Mapped);
  pm.addPass(createExpandMath());
  reached(KernelLevel::Expanded);
  pm.addPass(createLowerKernels());
  reached(KernelLevel::Lowered);
  CompileKernelsOptions compile;
  compile.targets.assign(options.targets.begin(), options.targets.end());
  pm.addPass(createCompileKernels(compile));
}
