// Which values of a function depend on its tokens, and which of their dimensions count sequences and positions.
#pragma once
#include "passes/Autodiff/RowShape.h"
#include "llvm/ADT/DenseMap.h"
#include <string>

namespace ztc {

/// The rows of values, op by op: what a pass asks that treats positions one by one. Positions meet in an attention, and
/// in products of rows with the rows of all positions, of which a mask is proven to hide the later ones; where they do
/// in any other way, reason() says which op and how.
class TokenRows {
public:
  bool dependsOnTokens(mlir::Value value) const { return rows_.contains(value); }
  /// Which dimensions of it count rows; all counts are 1 where it does not depend on tokens.
  RowShape rowsOf(mlir::Value value) const;
  const std::string &reason() const { return reason_; }
  void setReason(std::string reason) { reason_ = std::move(reason); }

protected:
  /// Of an op's operands and of its results.
  struct OpRows {
    std::vector<RowShape> operands;
    RowShape result;
    llvm::StringRef kept = {}; ///< what the last operand is, where it is read of all positions
  };
  /// Of an op of one result that is not a reshape, lookup, scatter or attention.
  std::optional<OpRows> rowsThrough(mlir::Operation *op);
  /// How much an integer grows from one sequence and from one position to the next, beside what tokens add to it.
  struct Growth {
    int64_t ofSequence = 0, ofPosition = 0;
    bool operator==(const Growth &) const = default;
  };
  std::optional<Growth> growthOf(mlir::Value value, const RowShape &rows) const;
  /// Notes which dimension of an op's result counts keys.
  llvm::LogicalResult noteKeys(mlir::Operation *op);
  /// Notes why there is no answer.
  std::nullopt_t mixed(mlir::Operation *op, llvm::StringRef how);

  llvm::DenseMap<mlir::Value, RowShape> rows_; ///< of values that depend on tokens
  std::string reason_;

private:
  std::optional<OpRows> rowsThroughMatmul(mlir::Operation *op);
  std::optional<OpRows> rowsThroughMove(mlir::Operation *op);
  /// Whether later positions have no part in a reduction over dimension `along` of a value.
  bool canReduce(mlir::Value value, int64_t along, bool isSum) const;

  llvm::DenseMap<mlir::Value, int64_t> keys_; ///< which dimension counts positions that rows look at
};

} // namespace ztc
