// The order of a block's ops, for passes that compare and move thousands of them.
#pragma once
#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace ztc {

/// Numbers ops with room between them. MLIR leaves room for about two ops between neighbours and then numbers the whole
/// block anew: where every comparison follows a move, that is the square of the number of ops. Here a million ops fit
/// next to one before that happens.
class BlockOrder {
public:
  explicit BlockOrder(mlir::Block &block) : block(block) { renumber(); }

  bool isBefore(mlir::Operation *a, mlir::Operation *b) { return numberOf(a) < numberOf(b); }
  /// Right before (after) an op of the block.
  void moveBefore(mlir::Operation *op, mlir::Operation *position);
  void moveAfter(mlir::Operation *op, mlir::Operation *position);
  /// Of an op that is erased: another may get its address.
  void forget(mlir::Operation *op) { numbers.erase(op); }

private:
  int64_t numberOf(mlir::Operation *op);
  void renumber();
  mlir::Block &block;
  llvm::DenseMap<mlir::Operation *, int64_t> numbers;
};

} // namespace ztc
