#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-fuse"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYFUSE
#include "passes/Verify/Passes.h.inc"

namespace {

LogicalResult checkOp(Operation *op) {
  if (auto fusion = dyn_cast<graph::FusionOp>(op)) {
    for (Operation &inner : fusion->getRegion(0).front())
      if (isa<DecomposableOpInterface>(inner))
        return inner.emitOpError("F2: is a macro op inside of a group");
    return success();
  }
  if (!isFree(op) && !isLibraryCall(op) && !isCollective(op))
    return op->emitOpError("F1: computes, but is neither in a group nor a library call");
  if (auto accumulate = dyn_cast<graph::AccumulateOp>(op)) {
    auto addend = dyn_cast<OpResult>(resolveAlias(accumulate.getX()).source);
    if (!addend || !canAccumulate(addend.getOwner(), addend.getResultNumber()))
      return accumulate.emitOpError("F3: what it adds cannot be added in place");
  }
  return success();
}

struct VerifyFuse : impl::VerifyFuseBase<VerifyFuse> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Operation &op : function.getBody().front())
        if (failed(checkOp(&op)))
          return signalPassFailure();
  }
};
} // namespace
} // namespace ztc
