// What of the forward part can be computed again, by block and group.
#pragma once
#include "compiler/Analysis/RecomputeChoice.h"
#include "compiler/Analysis/TransformerBlocks.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

namespace ztc {

/// One block's ops of one group: what a search decides about.
struct RecomputeElement {
  int64_t layer; ///< -1: in no block
  RecomputeGroup group;
  uint64_t keptBytes = 0; ///< of results that backward reads: what need not be kept any more
  llvm::SmallVector<mlir::Operation *> ops;
};

/// Sorts the forward ops of `@microstep` into groups. What other blocks read, the residual stream, is in none; so are
/// library calls outside the blocks.
class RecomputeCandidates {
public:
  /// `function` up to `lossOp`, the op that computes the loss.
  RecomputeCandidates(mlir::func::FuncOp function, mlir::Operation *lossOp);

  /// The ops of a choice that backward or another of them reads, in block order.
  llvm::SetVector<mlir::Operation *> ops(const RecomputeChoice &choice) const;
  /// What there is to choose, by block, then group: only what leaves something out of memory, or makes that possible.
  llvm::SmallVector<RecomputeElement> elements() const;
  /// All there is of Pointwise.
  RecomputeChoice cheap() const;
  /// All of each block but the last one, of this the Pointwise part: its backward follows at once, when all else would
  /// have to be there again.
  RecomputeChoice wholeLayers() const;

private:
  /// What an op depends on in its block, and what depends on it.
  struct Neighbours {
    bool afterAttention = false, afterProjection = false; ///< the latter: after a product that is after attention
    bool beforeAttention = false, beforeProduct = false;
  };

  void findNeighbours();
  void findGroups();
  /// The group of a library call, by what lies around it in its block; see RecomputeGroup.
  RecomputeGroup groupOfCall(mlir::Operation *call) const;
  bool isReadByAnotherLayer(mlir::Operation *op) const;
  bool isThere(mlir::Value value) const;
  bool isNeeded(mlir::Value value, const llvm::SetVector<mlir::Operation *> &marked) const;

  mlir::Block &block;
  mlir::Operation *lossOp;
  TransformerBlocks blocks;
  llvm::DenseMap<mlir::Operation *, Neighbours> neighbours;  ///< of every op before the turning point
  llvm::MapVector<mlir::Operation *, RecomputeGroup> groups; ///< in block order
  llvm::DenseMap<mlir::Operation *, int64_t> layers;         ///< of these
};

} // namespace ztc
