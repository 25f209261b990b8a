#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Support/Location.h"
#include "mlir/IR/Remarks.h"
#include "passes/Recompute/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "ztc-mark-recomputed"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MARKRECOMPUTED
#include "passes/Recompute/Passes.h.inc"

namespace {

/// Parameters and constants are there in backward too, whatever is recomputed.
bool isThereAnyhow(Value source) {
  return isa<BlockArgument>(source) || isa<graph::ConstantOp, dist::AllGatherOp>(source.getDefiningOp());
}

class Marker {
public:
  Marker(Block &block, Operation *turningPoint) : block(block), turningPoint(turningPoint) {
    for (Operation &op : block) {
      if (&op == turningPoint)
        break;
      lastLayer = std::max(lastLayer, layerOf(op.getLoc()));
    }
  }

  /// What `level` takes, in block order.
  ArrayRef<Operation *> choose(bool wholeLayers) {
    for (Operation &op : block) {
      if (&op == turningPoint)
        break;
      if (isFree(&op) || isCollective(&op) || op.getNumOperands() == 0 || isReadByAnotherLayer(&op))
        continue;
      int64_t layer = layerOf(op.getLoc());
      bool whole = wholeLayers && layer >= 0 && layer < lastLayer;
      if (whole || (!isLibraryCall(&op) && (!wholeLayers || layer == lastLayer) && needsNothingMore(&op)))
        marked.insert(&op);
    }
    dropUnread();
    return marked.getArrayRef();
  }

private:
  bool isMarked(Value value) const { return value.getDefiningOp() && marked.contains(value.getDefiningOp()); }

  /// Whether `op` can be computed again from what backward has in any case.
  bool needsNothingMore(Operation *op) const {
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      Value source = resolveAlias(operand).source;
      return isThereAnyhow(source) || isMarked(source) || isReadBehind(source, turningPoint);
    });
  }

  /// The residual stream: recomputed, it would need all blocks before.
  bool isReadByAnotherLayer(Operation *op) const {
    int64_t layer = layerOf(op->getLoc());
    SmallVector<Operation *> todo{op};
    while (!todo.empty())
      for (Operation *user : todo.pop_back_val()->getUsers()) {
        if (aliasOf(user))
          todo.push_back(user);
        else if (!turningPoint->isBeforeInBlock(user) && layerOf(user->getLoc()) != layer)
          return true;
      }
    return false;
  }

  /// Whether backward or a clone reads `value`.
  bool isNeeded(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return aliasOf(user) ? isNeeded(user->getResult(0))
                           : turningPoint->isBeforeInBlock(user) || marked.contains(user);
    });
  }

  void dropUnread() {
    SmallVector<Operation *> ops(marked.getArrayRef());
    for (Operation *op : llvm::reverse(ops))
      if (llvm::none_of(op->getResults(), [&](Value result) { return isNeeded(result); }))
        marked.remove(op);
  }

  Block &block;
  Operation *turningPoint;
  int64_t lastLayer = -1;
  llvm::SetVector<Operation *> marked;
};

struct MarkRecomputed : impl::MarkRecomputedBase<MarkRecomputed> {
  using MarkRecomputedBase::MarkRecomputedBase;

  void runOnOperation() override {
    if (failed(mark()))
      signalPassFailure();
  }

  LogicalResult mark() {
    if (level != "cheap" && level != "layer")
      return getOperation().emitError("there is no level '") << level << "' of recomputation: cheap or layer";
    auto function = getOperation().lookupSymbol<func::FuncOp>("microstep");
    Operation *turningPoint = function ? turningPointOf(function) : nullptr;
    if (!turningPoint)
      return getOperation().emitError("no @microstep computes a loss: nothing can be recomputed");
    Marker marker(function.getBody().front(), turningPoint);
    ArrayRef<Operation *> chosen = marker.choose(level == "layer");
    if (chosen.empty())
      return function.emitError("--recompute=")
             << level << " changes nothing: backward reads no value that this level computes again; drop the option";
    int64_t values = 0, bytes = 0;
    for (Operation *op : chosen) {
      op->setAttr(kRecomputed, UnitAttr::get(&getContext()));
      for (Value result : op->getResults())
        if (isReadBehind(result, turningPoint)) {
          ++values;
          bytes += tensorBytes(result.getType());
        }
    }
    remark::passed(function.getLoc(), remark::RemarkOpts::name("recompute").category(DEBUG_TYPE))
        << llvm::formatv("{0}: {1} values of {2} bytes are computed again instead of being kept, by {3} ops",
                         level.getValue(), values, bytes, chosen.size())
               .str();
    return success();
  }
};
} // namespace
} // namespace ztc
