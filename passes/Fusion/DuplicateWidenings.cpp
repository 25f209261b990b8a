#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Fusion/CanFuse.h"
#include "passes/Fusion/Passes.h"

#define DEBUG_TYPE "ztc-duplicate-widenings"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_DUPLICATEWIDENINGS
#include "passes/Fusion/Passes.h.inc"

namespace {

/// Ops whose result holds elements of their one operand, in other places.
bool movesElements(Operation *op) {
  return isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::BroadcastOp>(op);
}

/// Whether a product reads the f32 value, or its elements in other places: then it has to be written, once, where all
/// elements are in their places.
bool isFactor(Value wide) {
  return llvm::any_of(wide.getUsers(), [](Operation *user) {
    return (isa<graph::MatmulOp>(user) && user->hasAttr(graph::kWideFactors)) ||
           (movesElements(user) && isFactor(user->getResult(0)));
  });
}

struct DuplicateWidenings : impl::DuplicateWideningsBase<DuplicateWidenings> {
  void runOnOperation() override {
    bool isChanged = false;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      for (Operation &op : llvm::make_early_inc_range(block))
        if (movesElements(&op) && isWidening(op.getOperand(0).getDefiningOp()) && !isFactor(op.getResult(0))) {
          widenAfter(&op);
          isChanged = true;
        }
      for (auto cast : llvm::make_early_inc_range(block.getOps<graph::CastOp>()))
        if (isWidening(cast) && !cast.getY().hasOneUse() && !isFactor(cast.getY())) {
          duplicate(cast);
          isChanged = true;
        }
    }
    if (!isChanged)
      markAllAnalysesPreserved();
  }

  /// A move of a widened value as the widening of the moved one.
  static void widenAfter(Operation *move) {
    auto cast = move->getOperand(0).getDefiningOp<graph::CastOp>();
    Value wide = move->getResult(0);
    auto type = llvm::cast<RankedTensorType>(wide.getType());
    OpBuilder builder(move);
    Operation *narrow = builder.clone(*move);
    narrow->setOperand(0, cast.getX());
    narrow->getResult(0).setType(type.clone(getElementTypeOrSelf(cast.getX().getType())));
    auto after = graph::CastOp::create(builder, cast.getLoc(), type, narrow->getResult(0));
    after->setDiscardableAttrs(cast->getDiscardableAttrDictionary());
    wide.replaceAllUsesWith(after);
    move->erase();
    if (cast.getY().use_empty())
      cast.erase();
  }

  /// One copy before each reader.
  static void duplicate(graph::CastOp cast) {
    for (OpOperand &use : llvm::make_early_inc_range(cast.getY().getUses())) {
      OpBuilder builder(use.getOwner());
      use.set(builder.clone(*cast)->getResult(0));
    }
    cast.erase();
  }
};
} // namespace
} // namespace ztc
