// Mixtures of experts as importers leave them: every expert computes every token, and its share, 0 where it was not
// chosen, multiplies what it adds or reads.
#pragma once
#include "compiler/Dialect/Graph/Experts.h"
#include "passes/Autodiff/ExpertZeros.h"

namespace ztc {

/// A sum over experts: sum_e of a term that is 0 in the rows where expert e was not chosen.
struct Mixture {
  int64_t tokens = 0, count = 0;                ///< T, E
  TokenColumns choices;                         ///< K numbers of experts for each token
  llvm::SmallVector<mlir::Value> terms;         ///< of expert 0, 1, ...; none where nothing says that they are 0 so
  graph::AddOp sum;                             ///< the last of the ops that add a term
  llvm::SmallPtrSet<mlir::Operation *, 8> sums; ///< the ops that add the terms, and what is added to them

  /// Adds `value`, which is in front of `sum`, in place of the terms.
  void replaceTerms(mlir::Value value);
};

/// The mixtures of a function, in order of their sums.
llvm::SmallVector<Mixture> findMixtures(mlir::func::FuncOp function, const ExpertZeroAnalysis &analysis);

/// Whether each element of the op's result is computed of the elements of its operands at its place, whatever place
/// that is.
bool isByElement(mlir::Operation *op);

/// The order of choices (T, K), of i32 or i64, by expert.
graph::RouteOp routeChoices(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value choices, int64_t experts);

/// Whether two values are the same one, or the same ops with the same attributes make them of the same values.
bool areEquivalent(mlir::Value a, mlir::Value b);

/// How the values that expert 0's term is computed of correspond to those of the others.
class ExpertPeers {
public:
  /// Of a function: what depends on other arguments than parameters is computed from data.
  ExpertPeers(mlir::func::FuncOp function, const ExpertZeroAnalysis &analysis);

  /// Compares the terms of a mixture; false where they differ in more than weights.
  bool compare(const Mixture &mixture);

  /// Of each expert the value that corresponds to this one of expert 0's term; empty where it is the same one for all.
  llvm::ArrayRef<mlir::Value> of(mlir::Value value) const;
  bool isComputedFromData(mlir::Value value) const { return fromData.contains(value); }
  /// A share of expert 0, (..., 1) or (...).
  mlir::Value firstShare() const { return share; }
  /// Whether it is a share of an expert: a number for each token that a constant takes the place of where the expert
  /// was not chosen.
  bool isShare(mlir::Value value) const;

private:
  bool align(llvm::ArrayRef<mlir::Value> values);
  bool hasOwnProducts(mlir::Value value) const;

  const ExpertZeroAnalysis &analysis;
  llvm::DenseSet<mlir::Value> fromData;
  int64_t tokens = 0;
  mlir::Value share;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> peers; ///< empty: the same one for all
  llvm::DenseSet<mlir::Value> common;                                ///< what expert 1's term is computed of
};

} // namespace ztc
