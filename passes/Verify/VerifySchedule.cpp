#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-schedule"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "passes/Verify/Passes.h.inc"

namespace {

bool floats(Operation *op) {
  return isa<graph::ConstantOp>(op) || aliasOf(op);
}

/// (O2)
LogicalResult checkAlias(Operation *op) {
  Operation *next = op->getNextNode();
  while (next && floats(next))
    next = next->getNextNode();
  for (Operation *user : op->getUsers())
    if (user == next || user->isBeforeInBlock(next))
      return success();
  return op->emitOpError("O2: stands before an op that does not read it");
}

/// (O3)
LogicalResult checkSum(graph::AccumulateOp accumulate) {
  Value sum = accumulate.getAccumulator();
  while (auto link = resolveAlias(sum).source.getDefiningOp<graph::AccumulateOp>())
    sum = link.getAccumulator();
  Operation *first = resolveAlias(sum).source.getDefiningOp();
  Operation *second = resolveAlias(accumulate.getX()).source.getDefiningOp();
  if (first && second && !first->isBeforeInBlock(second))
    return accumulate.emitOpError("O3: the addend is computed before the sum");
  return success();
}

struct VerifySchedule : impl::VerifyScheduleBase<VerifySchedule> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function.getBody().hasOneBlock()) {
        function.emitOpError("O1: has more than one block");
        return signalPassFailure();
      }
      for (Operation &op : function.getBody().front()) {
        auto accumulate = dyn_cast<graph::AccumulateOp>(op);
        if ((floats(&op) && !op.use_empty() && failed(checkAlias(&op))) || (accumulate && failed(checkSum(accumulate))))
          return signalPassFailure();
      }
    }
  }
};
} // namespace
} // namespace ztc
