#include "compiler/Codegen/CompileKernels.h"
#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Selection.h"

#define DEBUG_TYPE "ztc-form-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FORMKERNELS
#include "passes/Kernels/Passes.h.inc"

namespace {
struct FormKernels : impl::FormKernelsBase<FormKernels> {
  void getDependentDialects(DialectRegistry &registry) const override {
    FormKernelsBase::getDependentDialects(registry);
    codegen::registerKernelDialects(registry);
  }

  void runOnOperation() override {
    KernelModule kernels(getOperation(), {/*host=*/false, /*device=*/false});
    FailureOr<std::vector<SelectedKernel>> selected = selectGroupKernels(getOperation(), kernels);
    if (failed(selected))
      return signalPassFailure();
    declareKernels(getOperation(), *selected);
  }
};
} // namespace
} // namespace ztc
