#include "passes/Autodiff/RowBatch.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "passes/Autodiff/RowShape.h"

using namespace mlir;

namespace ztc {

static SmallVector<int64_t> oneMore(ArrayRef<int64_t> offsets) {
  SmallVector<int64_t> result{0};
  llvm::append_range(result, offsets);
  return result;
}

SmallVector<int64_t> RowBatch::shapeOfAll(Value value) const {
  SmallVector<int64_t> shape{rows_};
  llvm::append_range(shape, shapeOf(value));
  return shape;
}

LogicalResult RowBatch::refuse(Operation *op, StringRef how) {
  reason_ = (op->getName().getStringRef() + " " + how).str();
  return failure();
}

Value RowBatch::twin(Value value) {
  if (Value known = twins_.lookup(value))
    return known;
  Value &copy = copies_[value];
  if (copy)
    return copy;
  OpBuilder::InsertionGuard insertion(builder_);
  builder_.setInsertionPointAfterValue(value);
  const SmallVector<int64_t> all = shapeOfAll(value);
  auto type = cast<RankedTensorType>(value.getType());
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  if (auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr())
    return copy = graph::ConstantOp::create(builder_, value.getLoc(), splat.resizeSplat(type.clone(all)));
  SmallVector<int64_t> one(all);
  one[0] = 1;
  return copy = graph::broadcast(graph::reshape(graph::Expr(builder_, value.getLoc(), value), one), all).value();
}

LogicalResult RowBatch::run(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (llvm::none_of(op.getOperands(), [&](Value value) { return differs(value); }))
      continue;
    builder_.setInsertionPoint(&op);
    if (op.getNumResults() != 1)
      return refuse(&op, "has several results");
    Operation *before = op.getPrevNode();
    if (failed(rewrite(&op)))
      return failure();
    markWideAs(op, before, twin(op.getResult(0)));
  }
  return success();
}

LogicalResult RowBatch::rewrite(Operation *op) {
  Value result = op->getResult(0);
  if (isa<graph::MatmulOp>(op))
    return rewriteMatmul(op);
  if (isa<graph::RmsNormOp>(op))
    return rewriteNorm(op);
  if (isa<graph::RopeOp>(op))
    return rewriteRope(op);
  if (isa<graph::CausalFilterOp>(op))
    return rewriteFilter(op);
  if (isa<graph::EmbeddingOp>(op))
    return rewriteLookup(op), success();
  if (isa<graph::EmbeddingGradOp>(op))
    return rewriteScatter(op), success();
  if (isa<graph::ReshapeOp>(op)) {
    graph::Expr x(builder_, op->getLoc(), twin(op->getOperand(0)));
    setTwin(result, graph::reshape(x, shapeOfAll(result)).value());
    return success();
  }
  if (isa<graph::BroadcastOp>(op))
    return rewriteBroadcast(op), success();
  if (op->hasTrait<OpTrait::Elementwise>() || isa<graph::SwigluOp, graph::SoftmaxOp>(op))
    return rewriteAlike(op), success();
  if (isa<graph::TransposeOp, graph::SliceOp, graph::PadOp, graph::ConcatOp, graph::ReduceSumOp, graph::ReduceMaxOp>(
          op))
    return rewriteAlike(op), success();
  return refuse(op, "is not known to leave texts apart");
}

void RowBatch::rewriteAlike(Operation *op) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(twin(operand));
  auto select = dyn_cast<graph::SelectOp>(op);
  if (Value active = select ? guards_.lookup(op->getOperand(2)) : Value()) {
    graph::Expr condition(builder_, op->getLoc(), operands[0]);
    SmallVector<int64_t> column(condition.rank(), 1);
    column[0] = rows_;
    graph::Expr guarded = graph::broadcast(graph::reshape(condition.with(active), column), condition.type().getShape());
    operands[0] = (condition & guarded).value();
  }
  Operation *many = builder_.clone(*op);
  many->setOperands(operands);
  Value result = op->getResult(0);
  many->getResult(0).setType(cast<RankedTensorType>(result.getType()).clone(shapeOfAll(result)));
  if (auto transpose = dyn_cast<graph::TransposeOp>(many)) {
    SmallVector<int64_t> permutation{0};
    for (int64_t from : transpose.getPermutation())
      permutation.push_back(from + 1);
    transpose.setPermutation(permutation);
  } else if (auto slice = dyn_cast<graph::SliceOp>(many)) {
    slice.setOffsets(oneMore(slice.getOffsets()));
  } else if (auto pad = dyn_cast<graph::PadOp>(many)) {
    pad.setLow(oneMore(pad.getLow()));
  } else if (auto concat = dyn_cast<graph::ConcatOp>(many)) {
    concat.setAxis(concat.getAxis() + 1);
  } else if (isa<graph::ReduceSumOp, graph::ReduceMaxOp>(many)) {
    SmallVector<int64_t> axes;
    for (int64_t axis : cast<DenseI64ArrayAttr>(many->getAttr("axes")).asArrayRef())
      axes.push_back(axis + 1);
    many->setAttr("axes", builder_.getDenseI64ArrayAttr(axes));
  }
  setTwin(result, many->getResult(0));
}

void RowBatch::rewriteBroadcast(Operation *op) {
  Value result = op->getResult(0);
  graph::Expr x(builder_, op->getLoc(), twin(op->getOperand(0)));
  ArrayRef<int64_t> own = shapeOf(op->getOperand(0));
  SmallVector<int64_t> aligned(shapeOf(result).size() + 1, 1);
  aligned[0] = rows_;
  llvm::copy(own, aligned.end() - int64_t(own.size()));
  setTwin(result, graph::broadcast(graph::reshape(x, aligned), shapeOfAll(result)).value());
}

LogicalResult RowBatch::rewriteNorm(Operation *op) {
  auto norm = cast<graph::RmsNormOp>(op);
  if (differs(norm.getWeight()))
    return refuse(op, "has a weight of each text");
  Operation *many = builder_.clone(*op);
  many->setOperand(0, twin(norm.getX()));
  many->getResult(0).setType(many->getOperand(0).getType());
  setTwin(op->getResult(0), many->getResult(0));
  return success();
}

/// Rows of texts are to the op as further rows of one text.
LogicalResult RowBatch::rewriteFilter(Operation *op) {
  auto filter = cast<graph::CausalFilterOp>(op);
  if (llvm::any_of(op->getOperands().drop_front(), [&](Value operand) { return differs(operand); }))
    return refuse(op, "has weights of each text");
  graph::Expr x(builder_, op->getLoc(), twin(filter.getX()));
  Value rows = graph::reshape(x, {rows_ * x.dim(1), x.dim(2), x.dim(3)}).value();
  Operation *many = builder_.clone(*op);
  many->setOperand(0, rows);
  many->getResult(0).setType(rows.getType());
  setTwin(op->getResult(0), graph::reshape(x.with(many->getResult(0)), x.type().getShape()).value());
  return success();
}

/// Texts, each at one position of its own, are to the op as the positions of one text.
LogicalResult RowBatch::rewriteRope(Operation *op) {
  auto rope = cast<graph::RopeOp>(op);
  ArrayRef<int64_t> shape = shapeOf(rope.getX());
  if (shape[0] != 1 || shape[1] != 1)
    return refuse(op, "turns several positions of a text");
  graph::Expr x(builder_, op->getLoc(), twin(rope.getX()));
  auto rows = [&](Value table) { return graph::reshape(x.with(twin(table)), {rows_, shapeOf(table)[1]}).value(); };
  graph::Expr turned =
      x.with(graph::RopeOp::create(builder_, op->getLoc(), graph::reshape(x, {1, rows_, shape[2], shape[3]}).value(),
                                   rows(rope.getCos()), rows(rope.getSin()), rope.getInverse()));
  turned.value().getDefiningOp()->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  setTwin(op->getResult(0), graph::reshape(turned, shapeOfAll(op->getResult(0))).value());
  return success();
}

Value RowBatch::indicesOfAll(Operation *op, Value indices, int64_t tableRows) {
  graph::Expr index(builder_, op->getLoc(), twin(indices));
  auto text = graph::IotaOp::create(builder_, op->getLoc(), index.type(), 0);
  return (index + index.with(text) * double(tableRows)).value();
}

void RowBatch::rewriteLookup(Operation *op) {
  auto lookup = cast<graph::EmbeddingOp>(op);
  Value result = lookup.getY(), table = lookup.getTable(), indices = lookup.getIndices();
  const auto type = cast<RankedTensorType>(result.getType()).clone(shapeOfAll(result));
  if (!differs(table)) {
    setTwin(result, graph::EmbeddingOp::create(builder_, op->getLoc(), type, table, twin(indices)));
    return;
  }
  ArrayRef<int64_t> shape = shapeOf(table);
  graph::Expr all(builder_, op->getLoc(), twin(table));
  all = graph::reshape(all, {rows_ * shape[0], shape[1]});
  setTwin(result,
          graph::EmbeddingOp::create(builder_, op->getLoc(), type, all.value(), indicesOfAll(op, indices, shape[0])));
}

void RowBatch::rewriteScatter(Operation *op) {
  auto scatter = cast<graph::EmbeddingGradOp>(op);
  Value result = scatter.getDtable();
  ArrayRef<int64_t> shape = shapeOf(result);
  const auto type = cast<RankedTensorType>(result.getType()).clone(ArrayRef<int64_t>{rows_ * shape[0], shape[1]});
  Value indices = indicesOfAll(op, scatter.getIndices(), shape[0]);
  graph::Expr sums(builder_, op->getLoc(),
                   graph::EmbeddingGradOp::create(builder_, op->getLoc(), type, indices, twin(scatter.getDy())));
  setTwin(result, graph::reshape(sums, shapeOfAll(result)).value());
}

/// Exchanges the last two dimensions.
static graph::Expr turned(const graph::Expr &x) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return graph::transpose(x, order);
}

/// (rows, L..., m, k) as (L..., rows * m, k).
static graph::Expr joined(const graph::Expr &x) {
  SmallVector<int64_t> order, shape;
  const int64_t lead = x.rank() - 3;
  for (int64_t i = 0; i < lead; ++i) {
    order.push_back(i + 1);
    shape.push_back(x.dim(i + 1));
  }
  order.append({0, lead + 1, lead + 2});
  shape.append({x.dim(0) * x.dim(lead + 1), x.dim(lead + 2)});
  return graph::reshape(lead ? graph::transpose(x, order) : x, shape);
}

LogicalResult RowBatch::rewriteMatmul(Operation *op) {
  auto matmul = cast<graph::MatmulOp>(op);
  const Value result = matmul.getY();
  const int64_t lead = int64_t(shapeOf(result).size()) - 2;
  const int64_t m = shapeOf(result)[lead], n = shapeOf(result)[lead + 1];
  auto multiply = [&](Value a, Value b, bool transposeA, bool transposeB, ArrayRef<int64_t> shape) {
    auto type = cast<RankedTensorType>(result.getType()).clone(shape);
    auto product = graph::MatmulOp::create(builder_, op->getLoc(), type, a, b, transposeA, transposeB);
    product->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return graph::Expr(builder_, op->getLoc(), product);
  };
  graph::Expr a(builder_, op->getLoc(), matmul.getA()), b = a.with(matmul.getB());
  SmallVector<int64_t> shape(shapeOf(result).take_front(lead));
  if (differs(matmul.getA()) && differs(matmul.getB())) {
    // The texts are further products beside those of the first dimension.
    auto beside = [&](const graph::Expr &own) {
      graph::Expr all = own.with(twin(own.value()));
      SmallVector<int64_t> sizes(all.type().getShape());
      if (lead > 0) {
        sizes[1] *= rows_;
        sizes.erase(sizes.begin());
      }
      return graph::reshape(all, sizes).value();
    };
    if (lead > 0)
      shape[0] *= rows_;
    else
      shape.push_back(rows_);
    shape.append({m, n});
    graph::Expr y = multiply(beside(a), beside(b), matmul.getTransposeA(), matmul.getTransposeB(), shape);
    setTwin(result, graph::reshape(y, shapeOfAll(result)).value());
    return success();
  }
  // One operand is the same for all: the rows of all texts, or their columns, stand below one another.
  const bool isLeft = differs(matmul.getA());
  graph::Expr own = a.with(twin(isLeft ? a.value() : b.value()));
  if (isLeft ? matmul.getTransposeA() : !matmul.getTransposeB())
    own = turned(own);
  own = joined(own);
  shape.append({isLeft ? rows_ * m : m, isLeft ? n : rows_ * n});
  graph::Expr y = isLeft ? multiply(own.value(), b.value(), false, matmul.getTransposeB(), shape)
                         : multiply(a.value(), own.value(), matmul.getTransposeA(), true, shape);
  // Back to the front with the texts.
  SmallVector<int64_t> split(shapeOf(result).take_front(lead)), order{isLeft ? lead : lead + 1};
  if (isLeft)
    split.append({rows_, m, n});
  else
    split.append({m, rows_, n});
  for (int64_t i = 0; i < lead + 3; ++i)
    if (i != order[0])
      order.push_back(i);
  y = graph::reshape(y, split);
  setTwin(result, order[0] == 0 ? y.value() : graph::transpose(y, order).value());
  return success();
}

} // namespace ztc
