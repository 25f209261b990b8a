// Reverse-mode differentiation of the straight-line code of one block.
#pragma once
#include "compiler/Interfaces/Interfaces.h"
#include "mlir/IR/Builders.h"

namespace ztc {

/// Where the reverse walk starts: the cotangent of a value of the block.
struct Seed {
  mlir::Value value;
  mlir::Value cotangent; ///< of `value`'s type
};

/// Emits, at the end of the block, the cotangents of `wanted` (values of the block) for these seeds: one value each,
/// null where no seed depends on it. First the ops on the way are replaced by forms with residuals (seed values
/// follow). Code is emitted only for ops that lie between a wanted value and a seed, in reverse order. Contributions to
/// one value are added in that order, to a block argument by graph.accumulate (its first contribution may be the
/// accumulator in place), to another value by graph.add. Fails after a located diagnostic for each op on the way that
/// has no derivative.
llvm::FailureOr<llvm::SmallVector<mlir::Value>> emitGradients(mlir::Block &block, llvm::ArrayRef<Seed> seeds,
                                                              llvm::ArrayRef<mlir::Value> wanted);

} // namespace ztc
