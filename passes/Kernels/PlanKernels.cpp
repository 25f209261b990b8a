#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Conversion/Steps/Steps.h"
#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Selection.h"

#define DEBUG_TYPE "ztc-plan-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_PLANKERNELS
#include "passes/Kernels/Passes.h.inc"

namespace {
struct PlanKernels : impl::PlanKernelsBase<PlanKernels> {
  void getDependentDialects(DialectRegistry &registry) const override {
    PlanKernelsBase::getDependentDialects(registry);
    codegen::registerKernelDialects(registry);
    registerStepSources(registry);
  }

  void runOnOperation() override {
    KernelModule kernels(getContext(), {/*host=*/true, /*device=*/false, /*bodies=*/false});
    if (failed(selectGroupKernels(getOperation(), kernels)) || failed(selectLibraryKernels(getOperation(), kernels)))
      signalPassFailure();
  }
};
} // namespace
} // namespace ztc
