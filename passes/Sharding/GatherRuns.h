// How often a bucket is gathered in a function, and which uses each gather serves.
#pragma once
#include "compiler/Dialect/Dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ztc {

/// Uses of one bucket that one gather serves, in program order; never empty.
struct GatherRun {
  unsigned bucket = 0;                          ///< index into what findGatherRuns was given
  llvm::SmallVector<mlir::OpOperand *> uses;    ///< reads of views of the bucket, or of aliases of views
  unsigned firstPosition = 0, lastPosition = 0; ///< of the readers in their block
};

/// A gather whose uses are to be divided, and its bucket's size in elements.
struct GatheredBucket {
  dist::AllGatherOp gather;
  int64_t elements = 0;
  int64_t layer = -1; ///< of the transformer block whose parameters it holds; -1: of none
};

/// The runs of each gathered bucket's uses, in the order of their first use (RationaleDist.md, "Gathers at stage 3").
/// `lossOp`: the op that computes the function's loss or logits.
std::vector<GatherRun> findGatherRuns(llvm::ArrayRef<GatheredBucket> buckets, mlir::Operation *lossOp);

} // namespace ztc
