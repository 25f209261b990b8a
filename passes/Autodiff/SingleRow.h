// One position in place of all: the ops of a function for one of its positions.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Autodiff/TokenRows.h"
#include <map>

namespace ztc {

/// Rewrites a function of (B, S) tokens into the same of one token at one position of the first sequence: each value
/// that depends on the tokens gets a twin in which the dimensions that count sequences and positions have shrunk by
/// that count. What tokens have no part in (tables, masks) is taken at the position. The ops before stay, for who has
/// to read them; the caller erases what is dead.
class SingleRow : public TokenRows {
public:
  /// What a row reads of other positions.
  struct Memory {
    virtual ~Memory() = default;
    /// The twin of an attention, of the result of linear attention or of a causal convolution; null where there is
    /// none, after setReason().
    virtual mlir::Value attend(mlir::Operation *attention, SingleRow &rows, mlir::OpBuilder &builder) = 0;
    /// `value` of all positions of the first sequence: that of this one is its twin, the others are kept from before.
    /// Null as above.
    virtual mlir::Value keep(mlir::Value value, llvm::StringRef what, SingleRow &rows, mlir::OpBuilder &builder) = 0;
  };

  /// `tokens` (B, S) becomes `token` (1, 1); `position` is a tensor (1) of i32. `last` are the indices (B) by which the
  /// function looks up the last row of each sequence: all that there is of one position.
  SingleRow(mlir::Value tokens, mlir::Value token, mlir::Value position, mlir::Value last, Memory &memory);

  /// Makes the twins of a block's ops, in order. Positions meet in an attention, and in products of rows with the rows
  /// of all positions, of which a mask is proven to hide the later ones. Fails where they do in any other way; then
  /// reason() says which op and how.
  llvm::LogicalResult run(mlir::Block &block);

  /// The twin of a value that depends on tokens; else the value.
  mlir::Value twin(mlir::Value value) const;
  /// `value` for the row at the position, `rows` being what its reader sees in it; null where that is something else.
  mlir::Value operandFor(mlir::Operation *reader, mlir::Value value, const RowShape &rows);

private:
  llvm::LogicalResult rewrite(mlir::Operation *op);
  llvm::LogicalResult rewriteReshape(mlir::Operation *op);
  llvm::LogicalResult rewriteLookup(mlir::Operation *op);
  llvm::LogicalResult rewriteScatter(mlir::Operation *op);
  /// Indices into the rows of a table that counts rows, for the part of the table that belongs to the position: those
  /// of every row must lie in its own part. Null, with a reason, where that is not seen.
  mlir::Value localIndices(mlir::Operation *op, mlir::Value indices, int64_t tableRows);
  /// A value that depends on tokens, of all positions of the first sequence.
  mlir::Value ofAllPositions(mlir::Value value, llvm::StringRef what);
  /// A value without tokens, at the position.
  mlir::Value atPosition(mlir::Value value, const RowShape &rows);
  mlir::Value makeAtPosition(mlir::Value value, const RowShape &rows);
  mlir::Value iotaAtPosition(mlir::Operation *iota, const RowShape &rows);
  /// The same by lookup in the whole value.
  mlir::Value lookUp(mlir::Value value, const RowShape &rows);

  mlir::Value position_, last_;
  Memory &memory_;
  mlir::OpBuilder builder_;
  llvm::DenseMap<mlir::Value, mlir::Value> twins_;
  llvm::DenseMap<mlir::Value, mlir::Value> ofAll_;
  std::map<std::pair<void *, RowShape>, mlir::Value> tables_; ///< of values without tokens
};

} // namespace ztc
