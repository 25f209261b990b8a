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
  if (Operation *last = lastOperand(op))
    moveAfter(op, last);
  else
    moveBefore(op, &op->getBlock()->front());
}

void sink(Operation *op) {
  if (Operation *first = firstUser(op))
    moveBefore(op, first);
}

Operation *firstUser(Operation *op) {
  Operation *first = nullptr;
  for (Operation *user : op->getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  return first;
}

} // namespace ztc
