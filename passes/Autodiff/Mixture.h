// Mixtures of experts as importers leave them: every expert computes every token, and its share, 0 where it was not
// chosen, multiplies what it adds.
#pragma once
#include "compiler/Dialect/Graph/Experts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace ztc {

/// Shares of chosen experts among zeros: ONNX's ScatterElements, as importers write it.
struct ChosenShares {
  mlir::Value shares;  ///< (T K, 1)
  mlir::Value indices; ///< (T K) of i32: at which element of the rows of all experts each of them lies
  mlir::Value choices; ///< (..., K) of i32 or i64: the experts' numbers
  int64_t perToken;    ///< K
};

/// Rows of shares in which few are not 0.
struct PlacedShares {
  mlir::Value all;                           ///< (..., E): a share of each expert, 0 where it was not chosen
  llvm::SmallVector<ChosenShares, 1> chosen; ///< `all` is the sum of these, which are placed one by one
  int64_t tokens, count;                     ///< T, E

  /// Experts that a token chooses.
  int64_t perToken() const;
};

/// `value` as such rows; nothing where it is made in another way.
std::optional<PlacedShares> placedShares(mlir::Value value);

/// A sum over experts: sum_e of a term that is 0 in the rows where expert e was not chosen.
struct Mixture {
  PlacedShares placed;
  mlir::Value shares;                   ///< (..., E): `placed.all`, or what is made of it where zeros stay zeros
  mlir::Operation *sum;                 ///< the last of the ops that add the terms
  llvm::SmallVector<mlir::Value> terms; ///< of expert 0, 1, ...
};

/// The mixtures of a function, in order of their sums.
llvm::SmallVector<Mixture> findMixtures(mlir::func::FuncOp function);

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
  explicit ExpertPeers(mlir::func::FuncOp function);

  /// Compares the terms of a mixture; false where they differ in more than weights.
  bool compare(const Mixture &mixture);

  /// Of each expert the value that corresponds to this one of expert 0's term; empty where it is the same one for all.
  llvm::ArrayRef<mlir::Value> of(mlir::Value value) const;
  bool isComputedFromData(mlir::Value value) const { return fromData.contains(value); }
  /// Expert 0's share, (..., 1).
  mlir::Value firstShare() const { return share; }
  /// Whether it is a share of an expert.
  bool isShare(mlir::Value value) const;

private:
  bool align(llvm::ArrayRef<mlir::Value> values);
  /// Whether rows of `value` are 0 where those of the share are.
  bool isZeroWithShare(mlir::Value value);

  llvm::DenseSet<mlir::Value> fromData;
  mlir::Value shares, share;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> peers; ///< empty: the same one for all
  llvm::DenseMap<mlir::Value, bool> zeros;
};

} // namespace ztc
