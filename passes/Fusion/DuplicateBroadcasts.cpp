#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Fusion/Passes.h"

#define DEBUG_TYPE "ztc-duplicate-broadcasts"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_DUPLICATEBROADCASTS
#include "passes/Fusion/Passes.h.inc"

namespace {
struct DuplicateBroadcasts : impl::DuplicateBroadcastsBase<DuplicateBroadcasts> {
  void runOnOperation() override {
    bool isChanged = false;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<Operation *> repeated;
      for (Operation &op : function.getBody().front())
        if (isa<graph::BroadcastOp, graph::IotaOp>(op) &&
            cast<RankedTensorType>(op.getResult(0).getType()).hasStaticShape())
          repeated.push_back(&op);
      for (Operation *op : repeated)
        isChanged |= duplicate(op);
    }
    if (!isChanged)
      markAllAnalysesPreserved();
  }

  /// One copy before each reader that takes it in; whether there was one, or the op went because nothing reads it.
  static bool duplicate(Operation *op) {
    bool isChanged = false;
    for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
      if (op->hasOneUse() || !use.getOwner()->hasTrait<OpTrait::Elementwise>())
        continue;
      OpBuilder builder(use.getOwner());
      use.set(builder.clone(*op)->getResult(0));
      isChanged = true;
    }
    if (!op->use_empty())
      return isChanged;
    op->erase();
    return true;
  }
};
} // namespace
} // namespace ztc
