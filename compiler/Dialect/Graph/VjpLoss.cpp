// Derivatives of the two ends of a model: the row gather and the loss.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

/// `g` with zeros where the index is `padding`: a select, because a cotangent there need not be finite.
static Value withoutPadding(OpBuilder &builder, Location loc, Value g, Value indices, int64_t padding) {
  auto type = cast<RankedTensorType>(g.getType());
  Type element = cast<RankedTensorType>(indices.getType()).getElementType();
  SmallVector<int64_t> column(type.getShape());
  column.back() = 1;
  auto columnType = RankedTensorType::get(column, element), wideType = RankedTensorType::get(type.getShape(), element);
  auto boolType = RankedTensorType::get(type.getShape(), builder.getI1Type());
  Value rows = ReshapeOp::create(builder, loc, columnType, indices);
  Value wide = BroadcastOp::create(builder, loc, wideType, rows);
  Value row = ConstantOp::create(builder, loc, wideType,
                                 DenseElementsAttr::get(wideType, builder.getIntegerAttr(element, padding)));
  Value zeros = ConstantOp::create(builder, loc, type,
                                   DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 0.0)));
  Value isToken = CompareOp::create(builder, loc, boolType, wide, row, Comparison::NotEqual);
  return SelectOp::create(builder, loc, type, isToken, g, zeros);
}

LogicalResult EmbeddingOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (!g || !context.wants(0))
    return success();
  Value indices = context.operand(1);
  if (std::optional<int64_t> padding = getPadding())
    g = withoutPadding(builder, getLoc(), g, indices, *padding);
  context.accumulate(0, EmbeddingGradOp::create(builder, getLoc(), getTable().getType(), indices, g));
  return success();
}

LogicalResult EmbeddingGradOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (!g || !context.wants(1))
    return success();
  Expr table = castTo(Expr(builder, getLoc(), g), getElementTypeOrSelf(getDy()));
  context.accumulate(1, EmbeddingOp::create(builder, getLoc(), getDy().getType(), table.value(), context.operand(0)));
  return success();
}

/// `cotangent` of one loss, or of several, for each of so many rows.
static Expr ofRows(const Expr &cotangent, int64_t rows) {
  if (cotangent.rank() == 0)
    return broadcast(reshape(cotangent, {1}), {rows});
  const int64_t losses = cotangent.dim(0);
  return reshape(broadcast(reshape(cotangent, {losses, 1}), {losses, rows / losses}), {rows});
}

LogicalResult CrossEntropyOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (!g)
    return success();
  Expr cotangent(builder, getLoc(), g);
  if (getWeights() && context.wants(2)) { // a weight's is its row's loss
    auto type = cast<RankedTensorType>(getWeights().getType());
    Expr losses = cotangent.with(CrossEntropyOp::create(builder, getLoc(), type.clone(cotangent.elementType()),
                                                        context.operand(0), context.operand(1), Value()));
    context.accumulate(2, castTo(losses * ofRows(cotangent, losses.dim(0)), type.getElementType()).value());
  }
  if (!context.wants(0))
    return success();
  auto dlogits = [&](const Expr &dloss) {
    return dloss.with(CrossEntropyGradOp::create(builder, getLoc(), getLogits().getType(), context.operand(0),
                                                 context.operand(1), dloss.value(), getWeights()));
  };
  if (cotangent.rank() == 0) {
    context.accumulate(0, dlogits(cotangent).value());
    return success();
  }
  // Of several losses each has its own cotangent: that of a loss's rows stands before each of them.
  Expr one = cotangent.with(makeConstant(builder, getLoc(), cotangent.type().clone(ArrayRef<int64_t>()), 1.0));
  Expr unscaled = dlogits(one);
  Expr ofEach = reshape(ofRows(cotangent, unscaled.dim(0)), {unscaled.dim(0), 1});
  context.accumulate(0, (unscaled * broadcastLike(castTo(ofEach, unscaled.elementType()), unscaled)).value());
  return success();
}
