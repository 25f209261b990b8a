#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Conversion/Steps/Steps.h"
#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Selection.h"
#include "passes/Kernels/Targets.h"
#include "runtime/Format/PlanValidator.h"

#define DEBUG_TYPE "ztc-form-library-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FORMLIBRARYKERNELS
#include "passes/Kernels/Passes.h.inc"

namespace {
struct FormLibraryKernels : impl::FormLibraryKernelsBase<FormLibraryKernels> {
  using FormLibraryKernelsBase::FormLibraryKernelsBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    FormLibraryKernelsBase::getDependentDialects(registry);
    codegen::registerKernelDialects(registry);
    registerStepSources(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<SmallVector<StringRef>> wanted = expandTargets(module, targets);
    if (failed(wanted))
      return signalPassFailure();
    KernelModule kernels(module, {/*host=*/!llvm::all_of(*wanted, isGpuTarget),
                                  /*device=*/llvm::any_of(*wanted, isGpuTarget)});
    FailureOr<std::vector<SelectedKernel>> selected = selectLibraryKernels(module, kernels);
    if (failed(selected))
      return signalPassFailure();
    declareKernels(module, *selected);
  }
};
} // namespace
} // namespace ztc
