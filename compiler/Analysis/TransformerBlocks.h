// Which transformer block an op of the forward part belongs to, by what it reads: no name and no location is asked.
#pragma once
#include "compiler/Analysis/BucketTable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace ztc {

/// The blocks of a function's forward part. Parameters say which block they are of (graph.layer of an argument, `layer`
/// of a bucket), and the ops follow:
/// - an op that reads a block's parameter, as it is or computed of parameters alone, is of that block;
/// - any other is of the latest block whose values it reads, so that a block ends with its sum in the residual stream;
/// - but what reads only values that the next block reads anyway (a norm without weights, a widening) is of that one;
/// - after the last block comes what reads a parameter of none, such as the last norm: it is in none.
class TransformerBlocks {
public:
  /// Of `function` up to `end`, the op that computes its loss.
  TransformerBlocks(mlir::func::FuncOp function, mlir::Operation *end);

  /// The block of an op before `end`; -1 where it is in none, and for all others.
  int64_t layerOf(mlir::Operation *op) const {
    auto found = layers.find(op);
    return found == layers.end() ? -1 : found->second;
  }
  /// The last block; -1 where there is none.
  int64_t last() const { return last_; }

private:
  llvm::DenseMap<mlir::Operation *, int64_t> layers; ///< of every op before `end`
  int64_t last_ = -1;
};

} // namespace ztc
