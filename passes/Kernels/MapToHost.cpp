#include "compiler/Codegen/CompileKernels.h"
#include "compiler/Codegen/KernelForms.h"
#include "passes/Kernels/Passes.h"

#define DEBUG_TYPE "ztc-map-to-host"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MAPTOHOST
#include "passes/Kernels/Passes.h.inc"

namespace {
struct MapToHost : impl::MapToHostBase<MapToHost> {
  void getDependentDialects(DialectRegistry &registry) const override {
    MapToHostBase::getDependentDialects(registry);
    codegen::registerKernelDialects(registry);
  }

  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kernel::kKernels);
    if (kernels && failed(codegen::mapToHost(kernels)))
      signalPassFailure();
  }
};
} // namespace
} // namespace ztc
