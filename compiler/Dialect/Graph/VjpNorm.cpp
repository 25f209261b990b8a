// Derivatives of normalisation, softmax and gated activations.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

LogicalResult RmsNormOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (!g || (!context.wants(0) && !context.wants(1)))
    return success();
  auto grad = RmsNormGradOp::create(builder, getLoc(), context.operand(0), context.operand(1), g,
                                    getEpsilon().convertToDouble());
  if (context.wants(0))
    context.accumulate(0, grad.getDx());
  if (context.wants(1))
    context.accumulate(1, grad.getDweight());
  return success();
}

LogicalResult SoftmaxOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value cotangent = context.cotangent(0);
  if (!cotangent || !context.wants(0))
    return success();
  Expr y(builder, getLoc(), context.result(0)), g = y.with(cotangent);
  context.accumulate(0, (y * (g - broadcastLike(reduceSumLast(g * y), g))).value());
  return success();
}

LogicalResult SwigluOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (!g || (!context.wants(0) && !context.wants(1)))
    return success();
  Type type = getGate().getType();
  auto grad = SwigluGradOp::create(builder, getLoc(), type, type, context.operand(0), context.operand(1), g);
  if (context.wants(0))
    context.accumulate(0, grad.getDgate());
  if (context.wants(1))
    context.accumulate(1, grad.getDup());
  return success();
}
