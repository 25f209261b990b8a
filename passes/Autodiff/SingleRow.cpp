#include "passes/Autodiff/SingleRow.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Autodiff/CausalMask.h"
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

RowShape SingleRow::rowsOf(Value value) const {
  auto found = rows_.find(value);
  return found == rows_.end() ? noRows(value) : found->second;
}

std::nullopt_t SingleRow::mixed(Operation *op, StringRef how) {
  if (reason_.empty())
    reason_ = (op->getName().getStringRef() + " " + how).str();
  return std::nullopt;
}

LogicalResult SingleRow::run(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (llvm::none_of(op.getOperands(), [&](Value value) { return dependsOnTokens(value); }))
      continue;
    builder_.setInsertionPoint(&op);
    if (!isa<graph::AttentionOp>(op)) {
      Operation *before = op.getPrevNode();
      if (failed(rewrite(&op)) || failed(noteKeys(&op)))
        return failure();
      markWideAs(op, before, twin(op.getResult(0)));
      continue;
    }
    Value result = memory_.attend(&op, *this, builder_);
    if (!result)
      return failure();
    rows_[op.getResult(0)] = rowsOf(op.getOperand(0));
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

/// The dimension that counts positions; -1 where none does, or more than one.
static int64_t queryOf(const RowShape &rows) {
  int64_t found = -1;
  for (auto [i, count] : llvm::enumerate(rows))
    if (count.positions > 1) {
      if (found >= 0)
        return -1;
      found = int64_t(i);
    }
  return found;
}

bool SingleRow::canReduce(Value value, int64_t along, bool isSum) const {
  auto key = keys_.find(value);
  if (key == keys_.end() || key->second != along)
    return true;
  const int64_t query = queryOf(rowsOf(value));
  return query >= 0 && hidesLater(value, query, along, isSum ? Hidden::Zero : Hidden::Lowest);
}

LogicalResult SingleRow::noteKeys(Operation *op) {
  Value result = op->getResult(0);
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto found = keys_.find(operand);
    if (found == keys_.end())
      continue;
    int64_t key = found->second;
    if (isa<graph::MatmulOp>(op))
      continue; // it has been summed over
    if (isa<graph::ReduceSumOp, graph::ReduceMaxOp>(op)) {
      if (llvm::is_contained(cast<DenseI64ArrayAttr>(op->getAttr("axes")).asArrayRef(), key))
        continue;
    } else if (isa<graph::ReshapeOp>(op)) {
      key = sameDimension(shapeOf(result), shapeOf(operand), key);
    } else if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
      key = llvm::find(transpose.getPermutation(), key) - transpose.getPermutation().begin();
    } else if (isa<graph::BroadcastOp>(op)) {
      key += int64_t(shapeOf(result).size() - shapeOf(operand).size());
    } else if (auto slice = dyn_cast<graph::SliceOp>(op)) {
      key = slice.getOffsets()[key] == 0 ? key : -1;
    } else if (auto concat = dyn_cast<graph::ConcatOp>(op)) {
      key = i == 0 || int64_t(concat.getAxis()) != key ? key : -1;
    } else if (!op->hasTrait<OpTrait::Elementwise>() && !isa<graph::SoftmaxOp>(op)) {
      key = -1;
    }
    if (key < 0 || keys_.try_emplace(result, key).first->second != key)
      return mixed(op, "puts what rows look at elsewhere"), failure();
  }
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

std::optional<SingleRow::OpRows> SingleRow::rowsThrough(Operation *op) {
  if (isa<graph::MatmulOp>(op))
    return rowsThroughMatmul(op);
  if (isa<graph::TransposeOp, graph::SliceOp, graph::PadOp, graph::ConcatOp, graph::BroadcastOp>(op))
    return rowsThroughMove(op);
  Value first = *llvm::find_if(op->getOperands(), [&](Value value) { return dependsOnTokens(value); });
  const RowShape rows = rowsOf(first);
  OpRows result{std::vector<RowShape>(op->getNumOperands(), rows), rows};
  if (op->hasTrait<OpTrait::Elementwise>() || isa<graph::SwigluOp>(op))
    return result;
  if (isa<graph::SoftmaxOp>(op)) {
    if (rows.back().rows() > 1 || !canReduce(first, int64_t(rows.size()) - 1, /*isSum=*/false))
      return mixed(op, "runs over positions that no mask is seen to hide");
    return result;
  }
  if (isa<graph::ReduceSumOp, graph::ReduceMaxOp>(op)) {
    for (int64_t axis : cast<DenseI64ArrayAttr>(op->getAttr("axes")).asArrayRef())
      if (rows[axis].rows() > 1 || !canReduce(first, axis, isa<graph::ReduceSumOp>(op)))
        return mixed(op, "runs over positions that no mask is seen to hide");
    return result;
  }
  if (auto norm = dyn_cast<graph::RmsNormOp>(op)) {
    if (first != norm.getX() || dependsOnTokens(norm.getWeight()) || rows.back().rows() > 1)
      return mixed(op, "runs over positions");
    result.operands[1] = noRows(norm.getWeight());
    return result;
  }
  if (auto rope = dyn_cast<graph::RopeOp>(op)) {
    if (first != rope.getX() || rows[1].sequences > 1 || rows[2].rows() > 1 || rows[3].rows() > 1)
      return mixed(op, "does not count positions in its second dimension");
    result.operands[1] = result.operands[2] = {rows[1], RowCount()};
    return result;
  }
  return mixed(op, "is not known to leave positions apart");
}

std::optional<SingleRow::OpRows> SingleRow::rowsThroughMatmul(Operation *op) {
  auto matmul = cast<graph::MatmulOp>(op);
  const bool dynamicA = dependsOnTokens(matmul.getA()), dynamicB = dependsOnTokens(matmul.getB());
  RowShape a = rowsOf(matmul.getA()), b = rowsOf(matmul.getB());
  const size_t lead = a.size() - 2;
  const size_t sumA = matmul.getTransposeA() ? lead : lead + 1, rowA = matmul.getTransposeA() ? lead + 1 : lead;
  const size_t sumB = matmul.getTransposeB() ? lead + 1 : lead, columnB = matmul.getTransposeB() ? lead : lead + 1;
  auto key = keys_.find(matmul.getA());
  const bool hasKeys = key != keys_.end();
  StringRef kept;
  if (hasKeys && key->second == int64_t(sumA) && dynamicB && b[sumB] == RowCount{1, shapeOf(matmul.getB())[sumB]} &&
      canReduce(matmul.getA(), int64_t(sumA), /*isSum=*/true)) {
    kept = "values";
    b[sumB] = {};
  }
  if (a[sumA].rows() > 1 || b[sumB].rows() > 1 || (hasKeys && kept.empty()) || keys_.contains(matmul.getB()))
    return mixed(op, "adds up over positions that no mask is seen to hide");
  if (a[rowA].rows() > 1 && b[columnB].rows() > 1) {
    if (!dynamicA || !dynamicB || b[columnB] != RowCount{1, shapeOf(matmul.getB())[columnB]} || !kept.empty())
      return mixed(op, "multiplies positions with positions");
    kept = "keys";
    b[columnB] = {};
    keys_[matmul.getY()] = int64_t(lead) + 1;
  }
  RowShape result(a.size());
  for (size_t i = 0; i < lead; ++i) {
    if (dynamicA && dynamicB && a[i] != b[i])
      return mixed(op, "multiplies positions with positions");
    a[i] = b[i] = result[i] = dynamicA ? a[i] : b[i];
  }
  result[lead] = a[rowA];
  result[lead + 1] = b[columnB];
  return OpRows{{std::move(a), std::move(b)}, std::move(result), kept};
}

/// Ops that put elements elsewhere: what they cut, join and fill may not be positions.
std::optional<SingleRow::OpRows> SingleRow::rowsThroughMove(Operation *op) {
  Value first = *llvm::find_if(op->getOperands(), [&](Value value) { return dependsOnTokens(value); });
  const RowShape rows = rowsOf(first);
  OpRows result{std::vector<RowShape>(op->getNumOperands(), rows), rows};
  if (auto transpose = dyn_cast<graph::TransposeOp>(op)) {
    for (auto [count, from] : llvm::zip_equal(result.result, transpose.getPermutation()))
      count = rows[from];
    return result;
  }
  if (auto concat = dyn_cast<graph::ConcatOp>(op)) {
    if (rows[concat.getAxis()].rows() > 1)
      return mixed(op, "joins positions");
    return result;
  }
  ArrayRef<int64_t> from = shapeOf(first), to = shapeOf(op->getResult(0));
  if (isa<graph::BroadcastOp>(op)) {
    result.result = RowShape(to.size());
    llvm::copy(rows, result.result.end() - rows.size());
    return result;
  }
  for (auto [count, before, after] : llvm::zip_equal(rows, from, to))
    if (count.rows() > 1 && before != after)
      return mixed(op, isa<graph::SliceOp>(op) ? "takes some of the positions" : "adds positions");
  return result;
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
