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

/// As moveBefore(), which forgets the order of all ops of the block: numbering them anew for each of thousands of moves
/// takes time that grows with the square of the depth. An op that is taken out and put in keeps what is known of the
/// others.
static void move(Operation *op, Block &block, Block::iterator position) {
  op->remove();
  block.getOperations().insert(position, op);
}

void moveBefore(Operation *op, Operation *position) {
  if (op != position && op->getNextNode() != position)
    move(op, *position->getBlock(), Block::iterator(position));
}

void moveAfter(Operation *op, Operation *position) {
  if (op != position && op->getPrevNode() != position)
    move(op, *position->getBlock(), std::next(Block::iterator(position)));
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
