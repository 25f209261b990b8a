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

std::optional<SingleRow::Growth> SingleRow::growthOf(Value value, const RowShape &rows) {
  Operation *op = value.getDefiningOp();
  if (!anyRows(rows))
    return Growth();
  auto splatOf = [](Value factor) -> std::optional<int64_t> {
    auto constant = factor.getDefiningOp<graph::ConstantOp>();
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    if (!splat || !splat.getElementType().isInteger())
      return std::nullopt;
    return splat.getSplatValue<APInt>().getSExtValue();
  };
  auto grown = [&](Value operand) { return growthOf(operand, rows); };
  if (!op)
    return std::nullopt;
  if (auto iota = dyn_cast<graph::IotaOp>(op)) {
    const RowCount &count = rows[iota.getDimension()];
    const int64_t each = shapeOf(value)[iota.getDimension()] / count.rows();
    return Growth{count.sequences > 1 ? each * count.positions : 0, count.positions > 1 ? each : 0};
  }
  if (splatOf(value))
    return Growth();
  if (isa<graph::AddOp, graph::SubOp>(op)) {
    std::optional<Growth> a = grown(op->getOperand(0)), b = grown(op->getOperand(1));
    const int64_t sign = isa<graph::AddOp>(op) ? 1 : -1;
    if (!a || !b)
      return std::nullopt;
    return Growth{a->ofSequence + sign * b->ofSequence, a->ofPosition + sign * b->ofPosition};
  }
  if (isa<graph::MulOp>(op))
    for (unsigned i : {0, 1})
      if (std::optional<int64_t> factor = splatOf(op->getOperand(i))) {
        std::optional<Growth> other = grown(op->getOperand(1 - i));
        return other ? std::optional(Growth{*factor * other->ofSequence, *factor * other->ofPosition}) : std::nullopt;
      }
  if (isa<graph::SelectOp>(op)) {
    std::optional<Growth> a = grown(op->getOperand(1)), b = grown(op->getOperand(2));
    return a == b ? a : std::nullopt;
  }
  if (isa<graph::CastOp>(op) && getElementTypeOrSelf(op->getOperand(0)).isInteger())
    return grown(op->getOperand(0));
  if (auto reshape = dyn_cast<graph::ReshapeOp>(op)) {
    std::optional<RowShape> inner = reshapedRows(shapeOf(value), rows, shapeOf(reshape.getX()));
    return inner ? growthOf(reshape.getX(), *inner) : std::nullopt;
  }
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(broadcast.getX());
    RowShape inner(rows.end() - int64_t(from.size()), rows.end());
    for (auto [count, size] : llvm::zip_equal(inner, from))
      count = size == 1 ? RowCount() : count;
    return growthOf(broadcast.getX(), inner);
  }
  // What tokens make is a number within the row's own part.
  return dependsOnTokens(value) ? std::optional(Growth()) : std::nullopt;
}

} // namespace ztc
