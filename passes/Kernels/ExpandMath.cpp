#include "compiler/Codegen/MathExpand.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Kernels/Passes.h"

#define DEBUG_TYPE "ztc-expand-math"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_EXPANDMATH
#include "passes/Kernels/Passes.h.inc"

namespace {
struct ExpandMath : impl::ExpandMathBase<ExpandMath> {
  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kernel::kKernels);
    if (kernels && failed(codegen::expandMath(kernels)))
      signalPassFailure();
  }
};
} // namespace
} // namespace ztc
