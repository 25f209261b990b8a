#include "passes/Autodiff/SingleRow.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "passes/Autodiff/Functions.h"

using namespace mlir;

namespace ztc {

SingleRow::SingleRow(Value tokens, Value token, Value position, Value last, Memory &memory)
    : position_(position), last_(last), memory_(memory), builder_(position.getContext()) {
  ArrayRef<int64_t> shape = shapeOf(tokens);
  rows_[tokens] = {RowCount{shape[0], 1}, RowCount{1, shape[1]}};
  twins_[tokens] = token;
}

Value SingleRow::twin(Value value) const {
  auto found = twins_.find(value);
  return found == twins_.end() ? value : found->second;
}

LogicalResult SingleRow::run(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (llvm::none_of(op.getOperands(), [&](Value value) { return dependsOnTokens(value); }))
      continue;
    builder_.setInsertionPoint(&op);
    if (!isa<graph::AttentionOp, graph::LinearAttentionOp, graph::CausalConvolutionOp>(op)) {
      Operation *before = op.getPrevNode();
      if (failed(rewrite(&op)) || failed(noteKeys(&op)))
        return failure();
      markWideAs(op, before, twin(op.getResult(0)));
      continue;
    }
    Value result = memory_.attend(&op, *this, builder_);
    if (!result)
      return failure();
    // Queries may be constants.
    rows_[op.getResult(0)] =
        rowsOf(*llvm::find_if(op.getOperands(), [&](Value value) { return dependsOnTokens(value); }));
    twins_[op.getResult(0)] = result;
  }
  return success();
}

LogicalResult SingleRow::rewrite(Operation *op) {
  if (op->getNumResults() != 1)
    return mixed(op, "has several results"), failure();
  if (isa<graph::ReshapeOp>(op))
    return rewriteReshape(op);
  if (isa<graph::EmbeddingOp>(op))
    return rewriteLookup(op);
  if (isa<graph::EmbeddingGradOp>(op))
    return rewriteScatter(op);
  std::optional<OpRows> rows = rowsThrough(op);
  if (!rows)
    return failure();
  SmallVector<Value> operands;
  for (auto [operand, shape] : llvm::zip_equal(op->getOperands(), rows->operands)) {
    const bool isLast = operands.size() + 1 == op->getNumOperands();
    operands.push_back(isLast && !rows->kept.empty() ? ofAllPositions(operand, rows->kept)
                                                     : operandFor(op, operand, shape));
    if (!operands.back())
      return failure();
  }
  Operation *twin = builder_.clone(*op);
  twin->setOperands(operands);
  Value result = op->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  twin->getResult(0).setType(type.clone(shrunk(type.getShape(), rows->result)));
  rows_[result] = std::move(rows->result);
  twins_[result] = twin->getResult(0);
  return success();
}

Value SingleRow::ofAllPositions(Value value, StringRef what) {
  if (Value known = ofAll_.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  Value result;
  if (isa_and_present<graph::ReshapeOp, graph::TransposeOp, graph::BroadcastOp>(op) &&
      dependsOnTokens(op->getOperand(0))) {
    // What is kept is small: no head of it stands twice.
    Value inner = ofAllPositions(op->getOperand(0), what);
    if (!inner)
      return {};
    RowShape sequences = rowsOf(value);
    for (RowCount &count : sequences)
      count.positions = 1;
    Operation *twin = builder_.clone(*op);
    twin->setOperands(inner);
    auto type = cast<RankedTensorType>(value.getType());
    twin->getResult(0).setType(type.clone(shrunk(type.getShape(), sequences)));
    result = twin->getResult(0);
  } else {
    result = memory_.keep(value, what, *this, builder_);
  }
  return ofAll_[value] = result;
}

LogicalResult SingleRow::rewriteReshape(Operation *op) {
  Value from = op->getOperand(0), to = op->getResult(0);
  std::optional<RowShape> rows = reshapedRows(shapeOf(from), rowsOf(from), shapeOf(to));
  if (!rows)
    return mixed(op, "joins positions with what stands before them"), failure();
  twins_[to] = reshapeTo(builder_, op->getLoc(), twin(from), shrunk(shapeOf(to), *rows));
  rows_[to] = std::move(*rows);
  return success();
}

Value SingleRow::operandFor(Operation *reader, Value value, const RowShape &rows) {
  if (!dependsOnTokens(value))
    return atPosition(value, rows);
  if (rowsOf(value) == rows)
    return twin(value);
  return mixed(reader, "reads operands that count positions in different dimensions"), Value();
}

Value SingleRow::atPosition(Value value, const RowShape &rows) {
  if (!anyRows(rows))
    return value;
  Value &known = tables_[{value.getAsOpaquePointer(), rows}];
  if (!known) {
    Value made = makeAtPosition(value, rows); // may insert others
    known = made;
  }
  return known;
}

Value SingleRow::makeAtPosition(Value value, const RowShape &rows) {
  Operation *op = value.getDefiningOp();
  const auto type = cast<RankedTensorType>(value.getType());
  const RankedTensorType small = type.clone(shrunk(type.getShape(), rows));
  if (auto constant = dyn_cast_if_present<graph::ConstantOp>(op))
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return graph::ConstantOp::create(builder_, op->getLoc(), small, splat.resizeSplat(small));
  if (isa_and_present<graph::IotaOp>(op))
    return iotaAtPosition(op, rows);
  if (auto broadcast = dyn_cast_if_present<graph::BroadcastOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(broadcast.getX());
    RowShape inner(rows.end() - int64_t(from.size()), rows.end());
    for (auto [count, size] : llvm::zip_equal(inner, from))
      count = size == 1 ? RowCount() : count;
    return graph::BroadcastOp::create(builder_, op->getLoc(), small, atPosition(broadcast.getX(), inner));
  }
  if (auto reshape = dyn_cast_if_present<graph::ReshapeOp>(op))
    if (std::optional<RowShape> inner = reshapedRows(type.getShape(), rows, shapeOf(reshape.getX())))
      return reshapeTo(builder_, op->getLoc(), atPosition(reshape.getX(), *inner), small.getShape());
  if (op && op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(atPosition(operand, rows));
    Operation *twin = builder_.clone(*op);
    twin->setOperands(operands);
    twin->getResult(0).setType(small);
    return twin->getResult(0);
  }
  return lookUp(value, rows);
}

Value SingleRow::iotaAtPosition(Operation *op, const RowShape &rows) {
  auto iota = cast<graph::IotaOp>(op);
  const auto type = cast<RankedTensorType>(iota.getType());
  const RankedTensorType small = type.clone(shrunk(type.getShape(), rows));
  const int64_t along = int64_t(iota.getDimension());
  auto within = graph::IotaOp::create(builder_, op->getLoc(), small, along);
  if (rows[along].positions == 1)
    return within; // of the first sequence
  // Element i of the row at position p is element p * n + i of the whole.
  graph::Expr position(builder_, op->getLoc(), position_);
  position = graph::castTo(position, type.getElementType());
  position = graph::broadcast(graph::reshape(position, SmallVector<int64_t>(small.getRank(), 1)), small.getShape());
  const int64_t each = small.getDimSize(along);
  if (each == 1)
    return position.value();
  return (position * double(each) + position.with(within)).value();
}

Value SingleRow::lookUp(Value value, const RowShape &rows) {
  const auto type = cast<RankedTensorType>(value.getType());
  graph::Expr whole(builder_, value.getLoc(), value);
  // Of the first sequence.
  SmallVector<int64_t> sizes(type.getShape());
  int64_t along = -1;
  for (auto [i, count] : llvm::enumerate(rows)) {
    sizes[i] /= count.sequences;
    if (count.positions == 1)
      continue;
    if (along >= 0)
      return reason_ = "a table counts positions in two dimensions", Value();
    along = int64_t(i);
  }
  if (ArrayRef(sizes) != type.getShape())
    whole = graph::slice(whole, SmallVector<int64_t>(sizes.size(), 0), sizes);
  if (along < 0)
    return whole.value();
  SmallVector<int64_t> order{along};
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (i != along)
      order.push_back(i);
  if (along != 0)
    whole = graph::transpose(whole, order);
  const int64_t positions = rows[along].positions, each = whole.type().getNumElements() / positions;
  whole = graph::reshape(whole, {positions, each});
  auto row = graph::EmbeddingOp::create(builder_, value.getLoc(), whole.type().clone(ArrayRef<int64_t>{1, each}),
                                        whole.value(), position_);
  // Back into the order of the dimensions.
  SmallVector<int64_t> small = shrunk(type.getShape(), rows), ordered, back(order.size());
  for (auto [i, from] : llvm::enumerate(order)) {
    ordered.push_back(small[from]);
    back[from] = int64_t(i);
  }
  graph::Expr result = graph::reshape(whole.with(row), ordered);
  return along == 0 ? result.value() : graph::transpose(result, back).value();
}

} // namespace ztc
