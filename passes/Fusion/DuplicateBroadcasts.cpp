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
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<Operation *> repeated;
      for (Operation &op : function.getBody().front())
        if (isa<graph::BroadcastOp, graph::IotaOp>(op) &&
            cast<RankedTensorType>(op.getResult(0).getType()).hasStaticShape())
          repeated.push_back(&op);
      for (Operation *op : repeated)
        duplicate(op);
    }
  }

  /// One copy before each reader that takes it in.
  static void duplicate(Operation *op) {
    for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
      if (op->hasOneUse() || !use.getOwner()->hasTrait<OpTrait::Elementwise>())
        continue;
      OpBuilder builder(use.getOwner());
      use.set(builder.clone(*op)->getResult(0));
    }
    if (op->use_empty())
      op->erase();
  }
};
} // namespace
} // namespace ztc
