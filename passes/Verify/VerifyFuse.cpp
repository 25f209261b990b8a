#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Fusion/CanFuse.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-fuse"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYFUSE
#include "passes/Verify/Passes.h.inc"

namespace {

/// A pointwise chain holds what its last op may take in.
LogicalResult checkChain(Block &body) {
  Operation *terminator = body.getTerminator(), *root = terminator->getOperand(0).getDefiningOp();
  if (!root || terminator->getNumOperands() != 1)
    return terminator->emitOpError("F4: yields something other than the last op of a pointwise chain");
  auto isInside = [&](Operation *reader) { return reader != terminator; };
  auto isWidened = [&](Operation &op) {
    return (isWidening(&op) || isa<graph::ReshapeOp>(op)) && llvm::all_of(op.getUsers(), isInside);
  };
  for (Operation &op : body.without_terminator())
    if (&op != root && !isa<graph::ConstantOp>(op) && !isWidened(op) && !canFuse(&op, isInside))
      return op.emitOpError("F4: is in a pointwise chain that may not contain it");
  return success();
}

LogicalResult checkOp(Operation *op) {
  if (auto fusion = dyn_cast<graph::FusionOp>(op)) {
    Block &body = fusion->getRegion(0).front();
    for (Operation &inner : body)
      if (isa<DecomposableOpInterface>(inner))
        return inner.emitOpError("F2: is a macro op inside of a group");
    return fusion.getKind() == graph::FusionKind::Chain ? checkChain(body) : success();
  }
  if (isComputed(op))
    return op->emitOpError("F1: computes, but is neither in a group nor a library call");
  if (auto accumulate = dyn_cast<graph::AccumulateOp>(op)) {
    auto addend = dyn_cast<OpResult>(resolveAlias(accumulate.getX()).source);
    if (!addend || !canAccumulate(addend.getOwner(), addend.getResultNumber()))
      return accumulate.emitOpError("F3: its addend cannot be added in place");
  }
  return success();
}

struct VerifyFuse : impl::VerifyFuseBase<VerifyFuse> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Operation &op : function.getBody().front())
        if (failed(checkOp(&op)))
          return signalPassFailure();
  }
};
} // namespace
} // namespace ztc
