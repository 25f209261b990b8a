#include "compiler/Codegen/MathExpand.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYKERNELS
#include "passes/Verify/Passes.h.inc"

namespace {
struct VerifyKernels : impl::VerifyKernelsBase<VerifyKernels> {
  using VerifyKernelsBase::VerifyKernelsBase;

  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kernel::kKernels);
    if (!kernels)
      return;
    WalkResult checked =
        kernels.walk([&](Operation *op) { return isa<ModuleOp>(op) ? WalkResult::advance() : WalkResult(check(op)); });
    if (checked.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult check(Operation *op) {
    // (V1)
    Dialect *dialect = op->getDialect();
    bool isLow = isa_and_nonnull<LLVM::LLVMDialect, NVVM::NVVMDialect>(dialect);
    if (level == KernelLevel::Lowered && !isLow)
      return op->emitOpError("V1: lowered kernels consist of ops of llvm and nvvm");
    if (!isLow && !isa_and_nonnull<func::FuncDialect, scf::SCFDialect, cf::ControlFlowDialect, arith::ArithDialect,
                                   math::MathDialect, vector::VectorDialect>(dialect))
      return op->emitOpError("V1: kernels consist of ops of func, scf, cf, arith, math, vector, llvm and nvvm");
    // (V2)
    if (leavesOrderOpen(op))
      return op->emitOpError("V2: leaves the order of its additions open; a kernel writes them out");
    // (V3)
    if (isInexact(op))
      return op->emitOpError("V3: leaves it open how often, or whether, a result is rounded");
    // (V4)
    if (level != KernelLevel::Mapped && codegen::isElementary(op))
      return op->emitOpError("V4: is a function of a library; ztc-expand-math makes arithmetic of it");
    return success();
  }

  static bool leavesOrderOpen(Operation *op) {
    return isa<vector::ReductionOp, vector::MultiDimReductionOp, vector::ContractionOp, vector::ScanOp, scf::ReduceOp,
               scf::ParallelOp, LLVM::vector_reduce_fadd, LLVM::vector_reduce_fmul, LLVM::AtomicRMWOp, NVVM::ReduxOp>(
        op);
  }

  /// Flags that let a compiler contract, reassociate or approximate.
  static bool isInexact(Operation *op) {
    if (isa<LLVM::FMulAddOp>(op))
      return true;
    if (auto flagged = dyn_cast<arith::ArithFastMathInterface>(op))
      if (auto flags = flagged.getFastMathFlagsAttr(); flags && flags.getValue() != arith::FastMathFlags::none)
        return true;
    if (auto flagged = dyn_cast<LLVM::FastmathFlagsInterface>(op))
      if (auto flags = flagged.getFastmathAttr(); flags && flags.getValue() != LLVM::FastmathFlags::none)
        return true;
    return false;
  }
};
} // namespace
} // namespace ztc
