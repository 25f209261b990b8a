#include "compiler/Codegen/LowerKernels.h"
#include "compiler/Codegen/MathExpand.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/Kernels/Passes.h"

#define DEBUG_TYPE "ztc-lower-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_LOWERKERNELS
#include "passes/Kernels/Passes.h.inc"

namespace {
struct LowerKernels : impl::LowerKernelsBase<LowerKernels> {
  void getDependentDialects(DialectRegistry &registry) const override {
    LowerKernelsBase::getDependentDialects(registry);
    OpPassManager passes(ModuleOp::getOperationName());
    codegen::addLoweringPasses(passes);
    passes.getDependentDialects(registry);
  }

  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kernel::kKernels);
    if (!kernels)
      return;
    WalkResult elementary = kernels.walk([](Operation *op) {
      if (!codegen::isElementary(op))
        return WalkResult::advance();
      op->emitOpError("is a library function, which kernels cannot call: ztc-expand-math turns it into arithmetic "
                      "before this pass");
      return WalkResult::interrupt();
    });
    if (elementary.wasInterrupted())
      return signalPassFailure();
    OpPassManager passes(ModuleOp::getOperationName());
    codegen::addLoweringPasses(passes);
    for (ModuleOp part : codegen::mappedModules(kernels)) {
      if (failed(runPipeline(passes, part)))
        return signalPassFailure();
      codegen::finishLowering(part);
    }
  }
};
} // namespace
} // namespace ztc
