#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-recompute"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYRECOMPUTE
#include "passes/Verify/Passes.h.inc"

namespace {

/// (R1) in functions that have no backward part
LogicalResult checkForwardOnly(func::FuncOp function) {
  for (Operation &op : function.getBody().front())
    if (isa<graph::BarrierOp>(op) || op.hasAttr(kRecomputed) || op.hasAttr(kRecomputation))
      return op.emitOpError("R1: nothing is recomputed in @") << function.getName();
  return success();
}

/// Whether `value` exists only from some gradient on: a barrier, a clone, or an alias of one.
bool isHeld(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<graph::BarrierOp>(op) || op->hasAttr(kRecomputation))
      return true;
    std::optional<Alias> alias = aliasOf(op);
    if (!alias)
      return false;
    value = alias->source;
  }
  return false;
}

LogicalResult checkOp(Operation *op, Operation *lossOp) {
  bool isBackward = lossOp->isBeforeInBlock(op);
  if (op->hasAttr(kRecomputed)) {
    if (isBackward || op == lossOp)
      return op->emitOpError("R1: is marked, but is in the backward part");
    for (Value result : op->getResults())
      if (isReadByBackward(result, lossOp))
        return op->emitOpError("R2: is marked, but the backward part reads it");
  }
  if (op->hasAttr(kRecomputation)) {
    if (!isBackward)
      return op->emitOpError("R1: is a clone, but is in the forward part");
    if (llvm::none_of(op->getOperands(), isHeld))
      return op->emitOpError("R4: is a clone that reads neither a barrier nor another clone");
  }
  auto barrier = dyn_cast<graph::BarrierOp>(op);
  if (!barrier)
    return success();
  Operation *value = resolveAlias(barrier.getX()).source.getDefiningOp();
  Operation *gradient = resolveAlias(barrier.getAfter()).source.getDefiningOp();
  if (!gradient || gradient->isBeforeInBlock(lossOp))
    return barrier.emitOpError("R3: stands after a value of the forward part");
  if (value && value->hasAttr(kRecomputed))
    return barrier.emitOpError("R3: keeps a value that is recomputed");
  return success();
}

struct VerifyRecompute : impl::VerifyRecomputeBase<VerifyRecompute> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(check(function)))
        return signalPassFailure();
  }

  LogicalResult check(func::FuncOp function) {
    Operation *lossOp = graph::isEntry(function, graph::Entry::Microstep) ? lossOpOf(function) : nullptr;
    if (!lossOp)
      return checkForwardOnly(function);
    for (Operation &op : function.getBody().front())
      if (failed(checkOp(&op, lossOp)))
        return failure();
    return success();
  }
};
} // namespace
} // namespace ztc
