// Several rows in place of one: the ops of a function that computes one text, for as many texts at a time.
#pragma once
#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <string>

namespace ztc {

/// Gives each value that differs from text to text a twin of shape (rows, its own shape...). What is computed of a row
/// has the same operations in the same order as alone: products with a weight take the rows of all texts together,
/// lookups in a table of each text those of one table after the other. The ops before stay; the caller erases what is
/// dead.
class RowBatch {
public:
  RowBatch(mlir::MLIRContext *context, int64_t rows) : builder_(context), rows_(rows) {}

  /// `twin` is (rows, shape of `value`...).
  void setTwin(mlir::Value value, mlir::Value twin) { twins_[value] = twin; }
  /// `cache` is what a text keeps: a select that changes it does so only in texts of which `active` (rows, 1) of i1 is
  /// true.
  void guard(mlir::Value cache, mlir::Value active) { guards_[cache] = active; }

  /// Makes the twins of a block's ops, in order. Fails on an op for which there is no rule; then reason() names it.
  llvm::LogicalResult run(mlir::Block &block);

  bool differs(mlir::Value value) const { return twins_.contains(value); }
  /// The twin; of what all texts share, as many copies.
  mlir::Value twin(mlir::Value value);
  const std::string &reason() const { return reason_; }

private:
  llvm::LogicalResult rewrite(mlir::Operation *op);
  /// An op that treats the dimensions before its own alike: the same op with a dimension more.
  void rewriteAlike(mlir::Operation *op);
  void rewriteBroadcast(mlir::Operation *op);
  llvm::LogicalResult rewriteMatmul(mlir::Operation *op);
  llvm::LogicalResult rewriteFilter(mlir::Operation *op);
  llvm::LogicalResult rewriteNorm(mlir::Operation *op);
  llvm::LogicalResult rewriteRope(mlir::Operation *op);
  void rewriteLookup(mlir::Operation *op);
  void rewriteScatter(mlir::Operation *op);
  /// Indices into `tableRows` rows of each text's own table, as those into all tables, one after the other.
  mlir::Value indicesOfAll(mlir::Operation *op, mlir::Value indices, int64_t tableRows);
  /// (rows, shape of the value...).
  llvm::SmallVector<int64_t> shapeOfAll(mlir::Value value) const;
  llvm::LogicalResult refuse(mlir::Operation *op, llvm::StringRef how);

  mlir::OpBuilder builder_;
  int64_t rows_;
  llvm::DenseMap<mlir::Value, mlir::Value> twins_, copies_, guards_;
  std::string reason_;
};

} // namespace ztc
