#include "passes/Schedule/Positions.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {

bool floats(Operation *op) {
  return isa<graph::ConstantOp>(op) || aliasOf(op);
}

using Comparison = llvm::function_ref<bool(Operation *, Operation *)>;

static bool isBeforeInBlock(Operation *a, Operation *b) {
  return a->isBeforeInBlock(b);
}

static Operation *lastOperand(Operation *op, Comparison isBefore) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *definition = operand.getDefiningOp(); definition && (!last || isBefore(last, definition)))
      last = definition;
  return last;
}

static Operation *firstUser(Operation *op, Comparison isBefore) {
  Operation *first = nullptr;
  for (Operation *user : op->getUsers())
    if (!first || isBefore(user, first))
      first = user;
  return first;
}

Operation *lastOperand(Operation *op) {
  return lastOperand(op, isBeforeInBlock);
}

Operation *firstUser(Operation *op) {
  return firstUser(op, isBeforeInBlock);
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

void hoistBy(BlockOrder &order, Operation *op) {
  if (Operation *last = lastOperand(op, [&](Operation *a, Operation *b) { return order.isBefore(a, b); }))
    order.moveAfter(op, last);
  else
    order.moveBefore(op, &op->getBlock()->front());
}

void sinkBy(BlockOrder &order, Operation *op) {
  if (Operation *first = firstUser(op, [&](Operation *a, Operation *b) { return order.isBefore(a, b); }))
    order.moveBefore(op, first);
}

} // namespace ztc
