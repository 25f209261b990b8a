#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Positions.h"

#define DEBUG_TYPE "ztc-assign-matrices"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_ASSIGNMATRICES
#include "passes/Schedule/Passes.h.inc"

namespace {
struct AssignMatrices : impl::AssignMatricesBase<AssignMatrices> {
  void runOnOperation() override {
    bool isChanged = false;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<dist::OwnMatrixOp> owns(function.getBody().front().getOps<dist::OwnMatrixOp>());
      for (dist::OwnMatrixOp own : owns)
        if (failed(assign(own)))
          return signalPassFailure();
      if (owns.empty())
        continue;
      sinkAll(function);
      isChanged = true;
    }
    if (!isChanged)
      markAllAnalysesPreserved();
  }

  /// Each collective of a direction took along what is made of it, up to the next one, and may have left behind what
  /// floats.
  static void sinkAll(func::FuncOp function) {
    SmallVector<Operation *> floating;
    for (Operation &op : function.getBody().front())
      if (floats(&op))
        floating.push_back(&op);
    llvm::for_each(llvm::reverse(floating), sink);
  }

  /// What is made of the matrix, up to the bucket of all.
  static LogicalResult assign(dist::OwnMatrixOp own) {
    SmallVector<Operation *> todo{own};
    while (!todo.empty()) {
      Operation *op = todo.pop_back_val();
      if (isa<dist::PackOp>(op))
        continue;
      if (auto before = op->getAttrOfType<StringAttr>(dist::kOwnedParameter)) {
        if (before == own.getParameterAttr())
          continue;
        return op->emitOpError("is made of the matrices of ")
               << before << " and " << own.getParameterAttr() << ", which may be of two ranks";
      }
      if (op->hasTrait<OpTrait::IsTerminator>())
        return own.emitOpError("leaves the function without a dist.pack");
      op->setAttr(dist::kOwnedParameter, own.getParameterAttr());
      todo.append(op->user_begin(), op->user_end());
    }
    return success();
  }
};
} // namespace
} // namespace ztc
