#include "passes/Autodiff/DocumentPositions.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {

/// What the dimensions have beside rows: the shape of one row.
static SmallVector<int64_t> besideRows(Value value, const RowShape &rows) {
  return shrunk(shapeOf(value), rows);
}
static bool countsPositions(const RowShape &rows) {
  return llvm::any_of(rows, [](const RowCount &count) { return count.positions > 1; });
}

Value DocumentPositions::at(Value value, const RowShape &rows) {
  if (!countsPositions(rows))
    return value;
  int64_t counted = 1, along = 0;
  for (const RowCount &count : rows) {
    counted *= count.sequences;
    along += count.positions > 1;
  }
  if (along > 1 || counted != sequences()) {
    reason_ = along > 1 ? "reads what counts positions in two dimensions"
                        : "reads what counts positions and is the same for all rows";
    return {};
  }
  Value &known = known_[{value.getAsOpaquePointer(), rows}];
  if (known)
    return known;
  graph::Expr x = gathered(value, rows);
  if (x.dim(0) == 1 && x.dim(1) == 1) // no position in it
    return known = value;
  // (B, S, e...) to the value's dimensions: where one counts several of these they must be there.
  SmallVector<int64_t> whole, order, joined;
  const SmallVector<int64_t> each = besideRows(value, rows);
  SmallVector<int64_t> sizes(x.type().getShape());
  bool sequencesPlaced = false;
  for (auto [i, count] : llvm::enumerate(rows)) {
    SmallVector<int64_t, 3> parts;
    if (count.sequences > 1 || (sequences() == 1 && !sequencesPlaced)) {
      parts.push_back(0);
      sequencesPlaced = true;
    }
    if (count.positions > 1)
      parts.push_back(1);
    parts.push_back(int64_t(i) + 2);
    auto full = [&](int64_t part) { return part == 0 ? sequences() : part == 1 ? positions() : each[i]; };
    if (llvm::count_if(parts, [&](int64_t part) { return full(part) > 1; }) > 1)
      for (int64_t part : parts)
        sizes[part] = full(part);
    int64_t product = 1;
    for (int64_t part : parts)
      product *= sizes[part];
    llvm::append_range(order, parts);
    joined.push_back(product);
  }
  x = graph::broadcast(x, sizes);
  SmallVector<int64_t> moved(order);
  llvm::erase_if(moved, [&](int64_t part) { return sizes[part] == 1; });
  if (!llvm::is_sorted(moved)) // else only ones change places
    x = graph::transpose(x, order);
  return known = graph::broadcast(graph::reshape(x, joined), shapeOf(value)).value();
}

Value DocumentPositions::rowsOfTable(Value table) {
  Value &known = known_[{table.getAsOpaquePointer(), {}}];
  if (known)
    return known;
  const int64_t width = shapeOf(table)[1];
  graph::Expr x = gathered(table, {RowCount{1, positions()}, RowCount()});
  x = graph::broadcast(x, {sequences(), positions(), 1, width});
  return known = graph::reshape(x, {sequences() * positions(), width}).value();
}

graph::Expr DocumentPositions::ofFirstSequence(Value value, const RowShape &rows) {
  SmallVector<int64_t> sizes(shapeOf(value));
  for (auto [size, count] : llvm::zip_equal(sizes, rows))
    size /= count.sequences;
  graph::Expr x = place(value);
  return ArrayRef(sizes) == shapeOf(value) ? x : graph::slice(x, SmallVector<int64_t>(sizes.size(), 0), sizes);
}

graph::Expr DocumentPositions::gathered(Value value, const RowShape &rows) {
  Operation *op = value.getDefiningOp();
  const auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape{1, 1};
  if (auto constant = dyn_cast_if_present<graph::ConstantOp>(op))
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue())) {
      shape.append(type.getRank(), 1);
      return place(graph::ConstantOp::create(builder_, op->getLoc(), splat.resizeSplat(type.clone(shape))));
    }
  if (!countsPositions(rows)) {
    llvm::append_range(shape, besideRows(value, rows));
    return graph::reshape(ofFirstSequence(value, rows), shape);
  }
  if (isa_and_present<graph::IotaOp>(op))
    return gatheredIota(op, rows);
  if (auto broadcast = dyn_cast_if_present<graph::BroadcastOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(broadcast.getX());
    RowShape inner(rows.end() - int64_t(from.size()), rows.end());
    for (auto [count, size] : llvm::zip_equal(inner, from))
      count = size == 1 ? RowCount() : count;
    graph::Expr x = gathered(broadcast.getX(), inner);
    shape = {x.dim(0), x.dim(1)};
    shape.append(type.getRank() - int64_t(from.size()), 1);
    llvm::append_range(shape, x.type().getShape().drop_front(2));
    return graph::reshape(x, shape);
  }
  if (auto reshape = dyn_cast_if_present<graph::ReshapeOp>(op))
    if (std::optional<RowShape> inner = reshapedRows(type.getShape(), rows, shapeOf(reshape.getX()))) {
      graph::Expr x = gathered(reshape.getX(), *inner);
      shape = {x.dim(0), x.dim(1)};
      llvm::append_range(shape, besideRows(reshape.getX(), *inner));
      x = graph::broadcast(x, shape);
      shape.resize(2);
      llvm::append_range(shape, besideRows(value, rows));
      return graph::reshape(x, shape);
    }
  if (auto lookup = dyn_cast_if_present<graph::EmbeddingOp>(op); lookup && rows.back() == RowCount()) {
    graph::Expr indices = gathered(lookup.getIndices(), RowShape(rows.begin(), rows.end() - 1));
    shape.assign(indices.type().getShape());
    shape.push_back(shapeOf(value).back());
    Operation *twin = builder_.clone(*op);
    twin->setOperand(1, indices.value());
    twin->getResult(0).setType(type.clone(shape));
    return place(twin->getResult(0));
  }
  if (op && op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1) {
    SmallVector<graph::Expr> operands;
    shape.append(type.getRank(), 1);
    for (Value operand : op->getOperands()) {
      operands.push_back(gathered(operand, rows));
      for (auto [size, own] : llvm::zip_equal(shape, operands.back().type().getShape()))
        size = std::max(size, own);
    }
    SmallVector<Value> values;
    for (const graph::Expr &operand : operands)
      values.push_back(graph::broadcast(operand, shape).value());
    Operation *twin = builder_.clone(*op);
    twin->setOperands(values);
    twin->getResult(0).setType(type.clone(shape));
    return place(twin->getResult(0));
  }
  return lookedUp(value, rows);
}

graph::Expr DocumentPositions::gatheredIota(Operation *op, const RowShape &rows) {
  auto iota = cast<graph::IotaOp>(op);
  const auto type = cast<RankedTensorType>(iota.getType());
  const int64_t along = int64_t(iota.getDimension()), each = besideRows(iota, rows)[along];
  SmallVector<int64_t> shape(type.getRank() + 2, 1);
  shape[along + 2] = each;
  graph::Expr within = place(graph::IotaOp::create(builder_, op->getLoc(), type.clone(shape), along + 2));
  if (rows[along].positions == 1)
    return within; // of the first sequence
  // Element i of position p is element p * each + i of the whole.
  SmallVector<int64_t> column(type.getRank() + 2, 1);
  column[0] = sequences(), column[1] = positions();
  graph::Expr position = graph::castTo(graph::reshape(within.with(positions_), column), type.getElementType());
  if (each == 1)
    return position;
  shape[0] = sequences(), shape[1] = positions();
  return graph::broadcast(position * double(each), shape) + graph::broadcast(within, shape);
}

graph::Expr DocumentPositions::lookedUp(Value value, const RowShape &rows) {
  const auto type = cast<RankedTensorType>(value.getType());
  graph::Expr table = ofFirstSequence(value, rows);
  const int64_t along = llvm::find_if(rows, [](const RowCount &count) { return count.positions > 1; }) - rows.begin();
  // Positions are the outermost part of their dimension.
  SmallVector<int64_t> split, order{along};
  for (auto [i, size] : llvm::enumerate(table.type().getShape())) {
    if (int64_t(i) == along)
      split.push_back(positions());
    split.push_back(int64_t(i) == along ? size / positions() : size);
  }
  for (int64_t i = 0; i < int64_t(split.size()); ++i)
    if (i != along)
      order.push_back(i);
  if (along != 0)
    table = graph::transpose(graph::reshape(table, split), order);
  const int64_t each = table.type().getNumElements() / positions();
  table = graph::reshape(table, {positions(), each});
  auto found = graph::EmbeddingOp::create(builder_, value.getLoc(),
                                          type.clone(ArrayRef<int64_t>{sequences(), positions(), each}), table.value(),
                                          positions_);
  SmallVector<int64_t> shape{sequences(), positions()};
  llvm::append_range(shape, besideRows(value, rows));
  return graph::reshape(table.with(found), shape);
}

} // namespace ztc
