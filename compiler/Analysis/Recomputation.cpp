#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Analysis/TransformerBlocks.h"
#include "compiler/Interfaces/Interfaces.h"

using namespace mlir;

namespace ztc {

Operation *lossOpOf(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  return terminator->getNumOperands() ? resolveAlias(terminator->getOperand(0)).source.getDefiningOp() : nullptr;
}

bool isReadByBackward(Value value, Operation *lossOp) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    std::optional<Alias> alias = aliasOf(user);
    if (alias && alias->source == value)
      return isReadByBackward(user->getResult(0), lossOp);
    return !alias && lossOp->isBeforeInBlock(user);
  });
}

std::map<int64_t, uint64_t> savedBytes(func::FuncOp function) {
  std::map<int64_t, uint64_t> bytes;
  Operation *lossOp = lossOpOf(function);
  if (!lossOp)
    return bytes;
  const TransformerBlocks blocks(function, lossOp);
  for (Operation &op : function.getBody().front()) {
    if (&op == lossOp)
      break;
    if (isFree(&op) || isCollective(&op))
      continue;
    for (Value result : op.getResults())
      if (isReadByBackward(result, lossOp))
        bytes[blocks.layerOf(&op)] += tensorBytes(result.getType());
  }
  return bytes;
}

int64_t recomputeFlops(ModuleOp module) {
  int64_t flops = 0;
  module.walk([&](CostOpInterface op) {
    if (op->hasAttr(kRecomputation))
      flops += op.getFlops();
  });
  return flops;
}

} // namespace ztc
