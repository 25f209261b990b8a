// Derivatives of the two ends of a model: the row gather and the loss.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

LogicalResult EmbeddingOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (g && context.wants(0))
    context.accumulate(0, EmbeddingGradOp::create(builder, getLoc(), getTable().getType(), context.operand(1), g));
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

LogicalResult CrossEntropyOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (g && context.wants(0))
    context.accumulate(0, CrossEntropyGradOp::create(builder, getLoc(), getLogits().getType(), context.operand(0),
                                                     context.operand(1), g));
  return success();
}
