#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Interfaces/Interfaces.h"

using namespace mlir;

namespace ztc {

Operation *turningPointOf(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  return terminator->getNumOperands() ? resolveAlias(terminator->getOperand(0)).source.getDefiningOp() : nullptr;
}

bool isReadBehind(Value value, Operation *turningPoint) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    std::optional<Alias> alias = aliasOf(user);
    if (alias && alias->source == value)
      return isReadBehind(user->getResult(0), turningPoint);
    return !alias && turningPoint->isBeforeInBlock(user);
  });
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
