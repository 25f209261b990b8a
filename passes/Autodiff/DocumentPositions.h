// What depends on the position in a row alone, at the positions in the documents of packed rows.
#pragma once
#include "compiler/Dialect/Graph/Expr.h"
#include "passes/Autodiff/RowShape.h"
#include <map>
#include <string>

namespace ztc {

/// Values without tokens (tables of angles, learned positions, factors by position), of which each element belongs to
/// a position: taken at the position that a token has in its document. Nothing is repeated before the end: a table of
/// (S, D) that all heads read becomes (B, S, D).
class DocumentPositions {
public:
  /// `positions` (B, S) of i32.
  DocumentPositions(mlir::OpBuilder &builder, mlir::Value positions) : builder_(builder), positions_(positions) {}

  /// `value` in its own shape, where `rows` says which of its dimensions count sequences and positions. Null where it
  /// counts positions and not the sequences, or positions in two dimensions; reason() says so.
  mlir::Value at(mlir::Value value, const RowShape &rows);
  /// A table (S, D) as (B * S, D).
  mlir::Value rowsOfTable(mlir::Value table);
  const std::string &reason() const { return reason_; }

private:
  /// (B, S, and what the value's dimensions have beside rows); what is the same along a dimension has 1 there.
  graph::Expr gathered(mlir::Value value, const RowShape &rows);
  graph::Expr gatheredIota(mlir::Operation *iota, const RowShape &rows);
  /// By lookup in the whole value.
  graph::Expr lookedUp(mlir::Value value, const RowShape &rows);
  /// The value for no position in particular, of the first sequence.
  graph::Expr ofFirstSequence(mlir::Value value, const RowShape &rows);
  graph::Expr place(mlir::Value value) { return graph::Expr(builder_, value.getLoc(), value); }
  int64_t sequences() const { return shapeOf(positions_)[0]; }
  int64_t positions() const { return shapeOf(positions_)[1]; }

  mlir::OpBuilder &builder_;
  mlir::Value positions_;
  std::map<std::pair<void *, RowShape>, mlir::Value> known_;
  std::string reason_;
};

} // namespace ztc
