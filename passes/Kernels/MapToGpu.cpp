#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Codegen/KernelForms.h"
#include "passes/Kernels/Passes.h"

#define DEBUG_TYPE "ztc-map-to-gpu"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MAPTOGPU
#include "passes/Kernels/Passes.h.inc"

namespace {
struct MapToGpu : impl::MapToGpuBase<MapToGpu> {
  void getDependentDialects(DialectRegistry &registry) const override {
    MapToGpuBase::getDependentDialects(registry);
    codegen::registerKernelDialects(registry);
  }

  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kernel::kKernels);
    if (kernels && failed(codegen::mapToGpu(kernels)))
      signalPassFailure();
  }
};
} // namespace
} // namespace ztc
