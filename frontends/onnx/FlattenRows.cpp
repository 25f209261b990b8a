// Pointwise code and norms move from (B, S, H) to the rows (T, H) that products work on, so that no reshape stands
// between them.
#include "compiler/Dialect/Graph/Cache.h"
#include "frontends/onnx/Raise.h"

using namespace mlir;

namespace ztc::importer {
namespace {

/// The (T, H) value under a reshape to (..., H).
Value rowsOf(Value value) {
  auto reshape = value.getDefiningOp<graph::ReshapeOp>();
  if (!reshape || typeOf(reshape.getX()).getRank() != 2 || shapeOf(reshape.getX()).back() != shapeOf(value).back())
    return nullptr;
  return reshape.getX();
}

/// An operand as rows: what is under a reshape, or a constant or broadcast vector built anew; null where it is neither.
Value asRows(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape, bool &isFlat) {
  if (Value rows = rowsOf(value)) {
    isFlat = true;
    return rows;
  }
  auto type = RankedTensorType::get(shape, typeOf(value).getElementType());
  if (auto constant = value.getDefiningOp<graph::ConstantOp>())
    if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()); dense && dense.isSplat())
      return graph::ConstantOp::create(builder, loc, type, dense.resizeSplat(type));
  if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>(); broadcast && typeOf(broadcast.getX()).getRank() == 1)
    return graph::BroadcastOp::create(builder, loc, type, broadcast.getX());
  return nullptr;
}

/// What 16-bit plans keep in f32 stays so under its new shape.
void keepWidth(Operation *from, Operation *to) {
  if (mlir::Attribute wide = from->getAttr(graph::kWide))
    to->setAttr(graph::kWide, wide);
}

/// Moves one op with one result onto rows; its result gets the reshape.
bool moveToRows(Operation *op) {
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || type.getRank() < 3)
    return false;
  int64_t width = type.getShape().back();
  SmallVector<int64_t> shape{type.getNumElements() / width, width};
  OpBuilder builder(op);
  bool isFlat = false;
  SmallVector<Value> operands;
  bool isNorm = isa<graph::RmsNormOp>(op);
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Value rows = isNorm && i == 1 ? operand : asRows(builder, op->getLoc(), operand, shape, isFlat);
    if (!rows)
      return false;
    operands.push_back(rows);
  }
  if (!isFlat)
    return false;
  OperationState state(op->getLoc(), op->getName(), operands, {RankedTensorType::get(shape, type.getElementType())},
                       op->getAttrs());
  Operation *flat = builder.create(state);
  auto back = graph::ReshapeOp::create(builder, op->getLoc(), type, flat->getResult(0));
  keepWidth(op, back);
  op->getResult(0).replaceAllUsesWith(back);
  op->erase();
  return true;
}

/// Looks at rows through two reshapes at once.
Value composedReshape(OpBuilder &builder, graph::ReshapeOp outer) {
  if (!outer.getX().getDefiningOp<graph::ReshapeOp>())
    return nullptr;
  Value composed = reshapeTo(builder, outer.getLoc(), outer.getX(), shapeOf(outer));
  if (Operation *made = composed.getDefiningOp(); made && made->getNextNode() == outer)
    keepWidth(outer, made);
  return composed;
}

} // namespace

unsigned flattenRows(func::FuncOp function) {
  for (auto embedding : llvm::make_early_inc_range(function.getBody().front().getOps<graph::EmbeddingOp>())) {
    auto type = typeOf(embedding);
    OpBuilder builder(embedding->getContext());
    builder.setInsertionPointAfter(embedding);
    int64_t width = type.getShape().back();
    auto rows = graph::ReshapeOp::create(
        builder, embedding.getLoc(),
        RankedTensorType::get({type.getNumElements() / width, width}, type.getElementType()), embedding);
    Value back = graph::ReshapeOp::create(builder, embedding.getLoc(), type, rows);
    embedding.getResult().replaceAllUsesExcept(back, rows);
  }
  unsigned moved = 0;
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    if (op.getNumResults() == 1 && (op.hasTrait<OpTrait::Elementwise>() || isa<graph::RmsNormOp, graph::SwigluOp>(op)))
      ops.push_back(&op);
  for (Operation *op : ops)
    moved += moveToRows(op);
  forEachOp<graph::ReshapeOp>(function, composedReshape);
  eraseDead(function);
  return moved;
}

} // namespace ztc::importer
