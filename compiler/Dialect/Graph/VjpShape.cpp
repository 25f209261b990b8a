// Derivatives of the ops that move or reduce data: each is the transpose of a linear map, except reduce_max.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace ztc::graph;

/// The cotangent of a one-result op's result where operand 0 needs one; null where nothing is to be done.
static Value cotangentFor(ztc::VjpContext &context) {
  return context.wants(0) ? context.cotangent(0) : Value();
}

LogicalResult ReshapeOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (Value g = cotangentFor(context))
    context.accumulate(0, reshape(Expr(builder, getLoc(), g), tensorOf(getX()).getShape()).value());
  return success();
}

LogicalResult TransposeOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (Value g = cotangentFor(context))
    context.accumulate(0, transpose(Expr(builder, getLoc(), g), invertPermutationVector(getPermutation())).value());
  return success();
}

LogicalResult BroadcastOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value cotangent = cotangentFor(context);
  if (!cotangent)
    return success();
  RankedTensorType x = tensorOf(getX()), y = tensorOf(getY());
  int64_t leading = y.getRank() - x.getRank();
  SmallVector<int64_t> repeated;
  for (int64_t i = 0; i < y.getRank(); ++i)
    if (y.getDimSize(i) != 1 && (i < leading || x.getDimSize(i - leading) == 1))
      repeated.push_back(i);
  Expr g(builder, getLoc(), cotangent);
  if (!repeated.empty())
    g = reduceSum(g, repeated);
  context.accumulate(0, reshape(g, x.getShape()).value());
  return success();
}

LogicalResult SliceOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (Value g = cotangentFor(context))
    context.accumulate(0, PadOp::create(builder, getLoc(), getX().getType(), g, getOffsets()));
  return success();
}

LogicalResult PadOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (Value g = cotangentFor(context))
    context.accumulate(0, slice(Expr(builder, getLoc(), g), getLow(), tensorOf(getX()).getShape()).value());
  return success();
}

LogicalResult ConcatOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value g = context.cotangent(0);
  if (!g)
    return success();
  SmallVector<int64_t> offsets(tensorOf(getY()).getRank(), 0);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    RankedTensorType part = tensorOf(input);
    if (context.wants(i))
      context.accumulate(i, slice(Expr(builder, getLoc(), g), offsets, part.getShape()).value());
    offsets[getAxis()] += part.getDimSize(getAxis());
  }
  return success();
}

LogicalResult ReduceSumOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (Value g = cotangentFor(context))
    context.accumulate(0,
                       broadcastLike(Expr(builder, getLoc(), g), Expr(builder, getLoc(), context.operand(0))).value());
  return success();
}

LogicalResult ReduceMaxOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value cotangent = cotangentFor(context);
  if (!cotangent)
    return success();
  Expr x(builder, getLoc(), context.operand(0)), y = x.with(context.result(0)), g = x.with(cotangent);
  Expr isMaximum = x == broadcastLike(y, x);
  Expr count = reduceSum(select(isMaximum, constantLike(x, 1.0), zeroLike(x)), getAxes());
  context.accumulate(0, select(isMaximum, broadcastLike(g / count, x), zeroLike(x)).value());
  return success();
}

LogicalResult BarrierOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  // `after` orders; no number flows from it.
  if (Value g = cotangentFor(context))
    context.accumulate(0, g);
  return success();
}
