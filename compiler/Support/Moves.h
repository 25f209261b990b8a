// Moves of ops within their block that keep what is known of its order.
#pragma once
#include "mlir/IR/Block.h"

namespace ztc {

/// Moves `op` before `position` of its block. As Operation::moveBefore, but that one forgets the order of all ops of
/// the block, and the next comparison numbers them anew: for thousands of moves that is the square of the depth. An op
/// that is taken out and put in loses its own number alone.
inline void moveTo(mlir::Operation *op, mlir::Block &block, mlir::Block::iterator position) {
  op->remove();
  block.getOperations().insert(position, op);
}

/// Right before (after) an op of its block.
inline void moveBefore(mlir::Operation *op, mlir::Operation *position) {
  if (op != position && op->getNextNode() != position)
    moveTo(op, *position->getBlock(), mlir::Block::iterator(position));
}
inline void moveAfter(mlir::Operation *op, mlir::Operation *position) {
  if (op != position && op->getPrevNode() != position)
    moveTo(op, *position->getBlock(), std::next(mlir::Block::iterator(position)));
}

} // namespace ztc
