// Where ops of one block may move.
#pragma once
#include "compiler/Support/BlockOrder.h"
#include "compiler/Support/Moves.h"

namespace ztc {

/// An alias or a constant: where it stands costs nothing.
bool floats(mlir::Operation *op);

/// The last op of the block that defines an operand of `op`; null where all are arguments.
mlir::Operation *lastOperand(mlir::Operation *op);

/// Moves `op` right after its operands, where that is earlier.
void hoist(mlir::Operation *op);
/// The same of one of many: `order` is that of its block.
void hoistBy(BlockOrder &order, mlir::Operation *op);

/// Moves `op` right before the first op that reads it.
void sink(mlir::Operation *op);
void sinkBy(BlockOrder &order, mlir::Operation *op);

/// The first op of the block that reads a result of `op`, aliases included; null where nobody does.
mlir::Operation *firstUser(mlir::Operation *op);

} // namespace ztc
