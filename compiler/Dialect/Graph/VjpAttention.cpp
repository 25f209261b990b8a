// Derivatives of the rotary embedding and of attention.
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

LogicalResult RopeOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (!g)
    return success();
  if (context.wants(1) || context.wants(2))
    return emitOpError("has no derivative with respect to its tables");
  // A rotation's transpose is the rotation by the opposite angle.
  if (context.wants(0))
    context.accumulate(0, RopeOp::create(builder, getLoc(), g, context.operand(1), context.operand(2), !getInverse()));
  return success();
}

Operation *AttentionOp::withResiduals(OpBuilder &builder) {
  if (getLse())
    return *this;
  auto q = cast<RankedTensorType>(getQ().getType());
  Type element = q.getElementType().isF64() ? builder.getF64Type() : builder.getF32Type();
  auto statistics = RankedTensorType::get({q.getDimSize(0), q.getDimSize(2), q.getDimSize(1)}, element);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(*this);
  auto full = AttentionOp::create(builder, getLoc(), TypeRange{getOut().getType(), statistics}, (*this)->getOperands(),
                                  (*this)->getAttrs());
  getOut().replaceAllUsesWith(full.getOut());
  erase();
  return full;
}

LogicalResult AttentionOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (!getLse())
    return emitOpError("has no row statistics to differentiate it from");
  if (context.cotangent(1))
    return emitOpError("has no derivative of its row statistics");
  if (!g || (!context.wants(0) && !context.wants(1) && !context.wants(2)))
    return success();
  auto grad =
      AttentionGradOp::create(builder, getLoc(), context.operand(0), context.operand(1), context.operand(2),
                              context.result(0), context.result(1), g, getDocumentStarts(),
                              getScale().convertToDouble(), getCausal(), getWindow(), getSoftcap().convertToDouble());
  for (unsigned i = 0; i < 3; ++i)
    if (context.wants(i))
      context.accumulate(i, grad->getResult(i));
  return success();
}
