#include "passes/Kernels/Passes.h"
#include "passes/Verify/Passes.h"
#include "runtime/Format/PlanValidator.h"

void ztc::populateCodegenPipeline(mlir::OpPassManager &pm, const CodegenOptions &options) {
  auto hook = [&](KernelLevel level) {
    if (options.after)
      options.after(pm, level);
  };
  auto reached = [&](KernelLevel level) {
    hook(level);
    pm.addPass(createVerifyKernels({level}));
  };
  auto withTargets = [&](auto passOptions) {
    passOptions.targets.assign(options.targets.begin(), options.targets.end());
    return passOptions;
  };
  pm.addPass(createFormKernels());
  pm.addPass(createFormLibraryKernels(withTargets(FormLibraryKernelsOptions())));
  reached(KernelLevel::Forms);
  if (options.targets.empty() || !llvm::all_of(options.targets, isGpuTarget)) {
    pm.addPass(createMapToHost());
    hook(KernelLevel::Host);
  }
  if (llvm::any_of(options.targets, isGpuTarget)) {
    pm.addPass(createMapToGpu());
    hook(KernelLevel::Gpu);
  }
  reached(KernelLevel::Mapped);
  pm.addPass(createExpandMath());
  reached(KernelLevel::Expanded);
  // Who looks at lowered kernels, a dump or a plugin's pass, sees all of them.
  mlir::OpPassManager seen(pm.getOpName().value_or(mlir::OpPassManager::getAnyOpAnchorName()));
  if (options.after)
    options.after(seen, KernelLevel::Lowered);
  if (!options.cache.empty() && seen.empty()) {
    ReuseKernelsOptions reuse = withTargets(ReuseKernelsOptions());
    reuse.cache = options.cache;
    pm.addPass(createReuseKernels(reuse));
  }
  pm.addPass(createLowerKernels());
  reached(KernelLevel::Lowered);
  CompileKernelsOptions compile = withTargets(CompileKernelsOptions());
  compile.cache = options.cache;
  pm.addPass(createCompileKernels(compile));
}
