// Lookups and scatters of one row in place of all.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Autodiff/SingleRow.h"

using namespace mlir;

namespace ztc {

LogicalResult SingleRow::rewriteLookup(Operation *op) {
  auto lookup = cast<graph::EmbeddingOp>(op);
  Value table = lookup.getTable(), indices = lookup.getIndices(), result = lookup.getY();
  const auto type = cast<RankedTensorType>(result.getType());
  if (!dependsOnTokens(table)) {
    RowShape rows = rowsOf(indices);
    rows.emplace_back();
    twins_[result] = graph::EmbeddingOp::create(builder_, op->getLoc(), type.clone(shrunk(type.getShape(), rows)),
                                                table, twin(indices));
    rows_[result] = std::move(rows);
    return success();
  }
  // The row of the position itself is all that there is.
  if (indices == last_ && rowsOf(table)[0].rows() == shapeOf(table)[0]) {
    twins_[result] = twin(table);
    rows_[result] = {RowCount{shapeOf(result)[0], 1}, RowCount()};
    return success();
  }
  RowShape rows = rowsOf(indices);
  int64_t all = 1;
  for (const RowCount &count : rows)
    all *= count.rows();
  if (rowsOf(table)[0].rows() != all || rowsOf(table)[1].rows() > 1)
    return mixed(op, "looks up rows of other positions"), failure();
  Value local = localIndices(op, indices, shapeOf(table)[0]);
  if (!local)
    return failure();
  rows.emplace_back();
  twins_[result] =
      graph::EmbeddingOp::create(builder_, op->getLoc(), type.clone(shrunk(type.getShape(), rows)), twin(table), local);
  rows_[result] = std::move(rows);
  return success();
}

LogicalResult SingleRow::rewriteScatter(Operation *op) {
  auto scatter = cast<graph::EmbeddingGradOp>(op);
  Value indices = scatter.getIndices(), result = scatter.getDtable();
  const auto type = cast<RankedTensorType>(result.getType());
  Value local = localIndices(op, indices, type.getDimSize(0));
  if (!local)
    return failure();
  RowShape rows = rowsOf(indices), sums(2);
  for (const RowCount &count : rows) {
    sums[0].sequences *= count.sequences;
    sums[0].positions *= count.positions;
  }
  rows.emplace_back();
  Value dy = operandFor(op, scatter.getDy(), rows);
  if (!dy)
    return failure();
  twins_[result] =
      graph::EmbeddingGradOp::create(builder_, op->getLoc(), type.clone(shrunk(type.getShape(), sums)), local, dy);
  rows_[result] = std::move(sums);
  return success();
}

Value SingleRow::localIndices(Operation *op, Value indices, int64_t tableRows) {
  const RowShape rows = rowsOf(indices);
  RowCount all;
  for (const RowCount &count : rows) {
    all.sequences *= count.sequences;
    all.positions *= count.positions;
  }
  const int64_t each = tableRows / all.rows();
  const std::optional<Growth> growth = growthOf(indices, rows);
  const Growth expected{all.sequences > 1 ? each * all.positions : 0, all.positions > 1 ? each : 0};
  if (!dependsOnTokens(indices) || tableRows % all.rows() || !growth || *growth != expected)
    return mixed(op, "looks up rows of other positions"), Value();
  graph::Expr index(builder_, op->getLoc(), twin(indices)), position = index.with(position_);
  position = graph::castTo(position, index.elementType());
  position = graph::reshape(position, SmallVector<int64_t>(index.rank(), 1));
  return (index - graph::broadcast(position * double(each), index.type().getShape())).value();
}

} // namespace ztc
