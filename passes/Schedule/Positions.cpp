#include "passes/Schedule/Positions.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {

bool floats(Operation *op) {
  return isa<graph::ConstantOp>(op) || aliasOf(op);
}

Operation *lastOperand(Operation *op) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *definition = operand.getDefiningOp(); definition && (!last || last->isBeforeInBlock(definition)))
      last = definition;
  return last;
}

void hoist(Operation *op) {
  Operation *last = lastOperand(op);
  if (last)
    op->moveAfter(last);
  else if (op != &op->getBlock()->front())
    op->moveBefore(&op->getBlock()->front());
}

void sink(Operation *op) {
  if (Operation *first = firstUser(op))
    op->moveBefore(first);
}

Operation *firstUser(Operation *op) {
  Operation *first = nullptr;
  for (Operation *user : op->getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  return first;
}

} // namespace ztc
