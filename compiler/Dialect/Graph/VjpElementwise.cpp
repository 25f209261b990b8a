// Derivatives of the elementwise ops that have attributes or mixed types; the others are the table in
// GraphElementwise.td.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

LogicalResult PowerOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value cotangent = context.cotangent(0);
  if (!cotangent || !context.wants(0))
    return success();
  Expr x(builder, getLoc(), context.operand(0)), g = x.with(cotangent);
  double exponent = getExponent().convertToDouble();
  if (exponent == 2.0)
    context.accumulate(0, (g * 2.0 * x).value());
  else if (exponent != 0.0)
    context.accumulate(0, (g * exponent * power(x, exponent - 1.0)).value());
  return success();
}

LogicalResult RoundOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  // Piecewise constant.
  return success();
}

LogicalResult SelectOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value cotangent = context.cotangent(0);
  if (!cotangent)
    return success();
  Expr g(builder, getLoc(), cotangent);
  if (context.wants(1))
    context.accumulate(1, select(g.with(context.operand(0)), g, zeroLike(g)).value());
  if (context.wants(2))
    context.accumulate(2, select(g.with(context.operand(0)), zeroLike(g), g).value());
  return success();
}

LogicalResult CastOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value cotangent = context.cotangent(0);
  Type from = getElementTypeOrSelf(getX()), to = getElementTypeOrSelf(getY());
  // An integer on either side: piecewise constant, the derivative is zero.
  if (!cotangent || !context.wants(0) || !isa<FloatType>(from) || !isa<FloatType>(to))
    return success();
  context.accumulate(0, castTo(Expr(builder, getLoc(), cotangent), from).value());
  return success();
}

LogicalResult DropoutOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value cotangent = context.cotangent(0);
  if (cotangent && context.wants(0)) // a product with the mask, which is its own derivative
    context.accumulate(0, DropoutOp::create(builder, getLoc(), cotangent, getModuleAttr(), getProbabilityAttr()));
  return success();
}
