// Mixtures whose experts compute as one tensor, (E, T, F): the sum over experts written out, expert by expert.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Autodiff/ExpertZeros.h"

namespace ztc {

/// A sum over the dimension of experts, and the same sum as additions of a term for each, which has its readers now.
struct UnstackedSum {
  mlir::Operation *stacked; ///< graph.reduce_sum, or graph.matmul with shares
  graph::AddOp sum;

  /// Gives the readers back.
  void restore() { sum.replaceAllUsesWith(stacked->getResult(0)); }
};

/// Writes out the sums over experts of a function that `analysis` knows to be 0 where an expert was not chosen; it
/// learns what is made. Of parameters that hold all experts' matrices each term reads its own part.
llvm::SmallVector<UnstackedSum> unstackExperts(mlir::func::FuncOp function, ExpertZeroAnalysis &analysis);

} // namespace ztc
