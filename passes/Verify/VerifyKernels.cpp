#include "compiler/Codegen/KernelForms.h"
#include "compiler/Codegen/LowerKernels.h"
#include "compiler/Codegen/MathExpand.h"
#include "compiler/Dialect/Graph/Graph.h"
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
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    auto kernels = getOperation().lookupSymbol<ModuleOp>(kernel::kKernels);
    if (!kernels)
      return;
    if (level == KernelLevel::Forms && failed(checkForms(kernels)))
      return signalPassFailure();
    for (ModuleOp part : codegen::mappedModules(kernels))
      if (failed(checkFunctions(part)))
        return signalPassFailure();
  }

  /// (V5)
  static LogicalResult checkForms(ModuleOp kernels) {
    auto forms = kernels.lookupSymbol<ModuleOp>(kernel::kForms);
    if (!forms)
      return success();
    for (Operation &op : *forms.getBody()) {
      auto form = dyn_cast<kernel::FuncOp>(op);
      if (!form)
        return op.emitOpError("V5: @forms consists of functions kernel.func");
      for (Operation &inner : form.getBody().front().without_terminator())
        if (!isa_and_nonnull<graph::GraphDialect>(inner.getDialect()))
          return inner.emitOpError("V5: a kernel.func consists of ops of graph");
      if (failed(codegen::planOf(form)))
        return failure();
    }
    return success();
  }

  LogicalResult checkFunctions(ModuleOp part) {
    // Kernels are many thousands of few kinds of ops: what the kind decides is asked once.
    DenseMap<OperationName, KindOfOp> kinds;
    WalkResult checked = part.walk([&](Operation *op) -> WalkResult {
      auto [known, isNew] = kinds.try_emplace(op->getName());
      if (isNew)
        known->second = {faultOf(op), isa<arith::ArithFastMathInterface, LLVM::FastmathFlagsInterface>(op)};
      if (!known->second.fault.empty())
        return op->emitOpError(known->second.fault);
      // (V3)
      if (known->second.mayHaveFlags && hasFastMathFlags(op))
        return op->emitOpError("V3: has fast-math flags: its result would be the compiler's choice");
      return WalkResult::advance();
    });
    return failure(checked.wasInterrupted());
  }

  struct KindOfOp {
    StringRef fault; ///< what is wrong with all of the kind; empty: nothing
    bool mayHaveFlags = false;
  };

  /// What is wrong with ops of the kind of `op`; empty: nothing.
  StringRef faultOf(Operation *op) {
    // (V1)
    Dialect *dialect = op->getDialect();
    bool isLow = isa_and_nonnull<LLVM::LLVMDialect, NVVM::NVVMDialect>(dialect);
    if (isa<ModuleOp>(op))
      return "";
    if (level == KernelLevel::Lowered && !isLow)
      return "V1: lowered kernels consist of ops of llvm and nvvm";
    if (!isLow && !isa_and_nonnull<func::FuncDialect, scf::SCFDialect, cf::ControlFlowDialect, arith::ArithDialect,
                                   math::MathDialect, vector::VectorDialect>(dialect))
      return "V1: kernels consist of ops of func, scf, cf, arith, math, vector, llvm and nvvm";
    // (V2)
    if (isa<vector::ReductionOp, vector::MultiDimReductionOp, vector::ContractionOp, vector::ScanOp, scf::ReduceOp,
            scf::ParallelOp, LLVM::vector_reduce_fadd, LLVM::vector_reduce_fmul, LLVM::AtomicRMWOp, NVVM::ReduxOp>(op))
      return "V2: leaves the order of its additions open; a kernel writes it out";
    // (V3)
    if (isa<LLVM::FMulAddOp>(op))
      return "V3: rounds once or twice, depending on the target; a kernel says which";
    // (V4)
    if (level >= KernelLevel::Expanded && codegen::isElementary(op))
      return "V4: is a library function; ztc-expand-math turns it into arithmetic";
    return "";
  }

  /// Flags that let a compiler contract, reassociate or approximate.
  static bool hasFastMathFlags(Operation *op) {
    if (auto flagged = dyn_cast<arith::ArithFastMathInterface>(op)) {
      auto flags = flagged.getFastMathFlagsAttr();
      return flags && flags.getValue() != arith::FastMathFlags::none;
    }
    if (auto flagged = dyn_cast<LLVM::FastmathFlagsInterface>(op)) {
      auto flags = flagged.getFastmathAttr();
      return flags && flags.getValue() != LLVM::FastmathFlags::none;
    }
    return false;
  }
};
} // namespace
} // namespace ztc
