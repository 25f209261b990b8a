// Derivatives of what linear attention and causal convolutions are written out as.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Recurrence.h"

using namespace mlir;
using namespace ztc::graph;

/// sum of x y (N R, K, V) over what shares a decay, in the decay's shape (N R, 1 or K, F).
static Value decayGradient(const Expr &x, const Expr &y, ArrayRef<int64_t> shape) {
  const int64_t rows = x.dim(0), K = x.dim(1), F = shape[2];
  Expr product = x * y;
  if (shape[1] == 1 && F == 1)
    return reshape(reduceSumLast(reshape(product, {rows, K * x.dim(2)})), shape).value();
  Expr sums = reduceSumLast(reshape(product, {rows, K, F, x.dim(2) / F}));
  if (shape[1] == 1)
    sums = reduceSumLast(transpose(reshape(sums, {rows, K, F}), {0, 2, 1}));
  return reshape(sums, shape).value();
}

// With G_n the cotangent of S_{n+1} and X_n that of x_n in all: X_n = dx_n + to_n G_n, G_{n-1} = decay_n G_n + from_n^T
// X_n + dbefore_n. That is the op itself in the other order. The rest are products within a chunk.
LogicalResult StatePassingOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value ofBefore = context.cotangent(0), ofLast = context.cotangent(1), ofX = getX() ? context.cotangent(2) : Value();
  if (!ofBefore && !ofLast && !ofX)
    return success();
  enum Operand { To, From, Update, Plus, Decay, Past };
  // The number of an operand that is there.
  auto indexOf = [&](unsigned segment) { return getODSOperandIndexAndLength(segment).first; };
  auto operand = [&](unsigned segment) {
    return getODSOperandIndexAndLength(segment).second ? context.operand(indexOf(segment)) : Value();
  };
  auto wants = [&](unsigned segment) {
    return getODSOperandIndexAndLength(segment).second && context.wants(indexOf(segment));
  };
  Expr before(builder, getLoc(), context.result(0));
  const bool hasProducts = getTo() != nullptr;
  if (hasProducts && !ofX)
    ofX = zeroLike(before.with(context.operand(indexOf(Update)))).value();
  if (!hasProducts && !ofBefore)
    ofBefore = zeroLike(before).value();
  auto passed = StatePassingOp::create(builder, getLoc(), getBefore().getType(), getLast().getType(),
                                       hasProducts ? getX().getType() : Type(), operand(From), operand(To), ofX,
                                       ofBefore, operand(Decay), ofLast, getChunks(), !getReverse());
  Expr G = before.with(passed.getBefore());
  if (hasProducts) {
    Expr X = before.with(passed.getX());
    if (wants(To))
      context.accumulate(indexOf(To), matmul(before.with(context.result(2)), G, false, true).value());
    if (wants(From))
      context.accumulate(indexOf(From), matmul(X, before, false, true).value());
    if (wants(Update))
      context.accumulate(indexOf(Update), X.value());
  }
  if (wants(Plus))
    context.accumulate(indexOf(Plus), G.value());
  if (wants(Decay))
    context.accumulate(indexOf(Decay),
                       decayGradient(G, before, cast<RankedTensorType>(getDecay().getType()).getShape()));
  if (wants(Past))
    context.accumulate(indexOf(Past), passed.getLast());
  return success();
}

// y (I + L) = I: dL = -y^T dy y^T below the diagonal.
LogicalResult UnitLowerInverseOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (!context.cotangent(0) || !context.wants(0))
    return success();
  Expr y(builder, getLoc(), context.result(0)), g = y.with(context.cotangent(0));
  Expr product = matmul(matmul(y, g, /*transposeA=*/true), y, false, /*transposeB=*/true);
  auto index = [&](int64_t dimension) {
    auto type = RankedTensorType::get({1, y.dim(1), y.dim(2)}, builder.getI32Type());
    return y.with(IotaOp::create(builder, getLoc(), type, dimension));
  };
  context.accumulate(0, select(broadcastLike(index(1) > index(2), y), -product, zeroLike(y)).value());
  return success();
}

LogicalResult CausalFilterOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  Value dy = context.cotangent(0);
  const bool hasBias = getBias() != nullptr;
  if (!dy || (!context.wants(0) && !context.wants(1) && !(hasBias && context.wants(2))))
    return success();
  auto taps = cast<RankedTensorType>(getTaps().getType());
  const int64_t k = taps.getDimSize(0), C = taps.getDimSize(1);
  SmallVector<Type> types(size_t(k), taps.clone({C}));
  if (hasBias)
    types.push_back(getBias().getType());
  auto grad =
      CausalFilterGradOp::create(builder, getLoc(), getX().getType(), types, context.operand(0), context.operand(1), dy,
                                 getDocumentStarts() ? context.operand(hasBias ? 3 : 2) : Value(), hasBias);
  if (context.wants(0))
    context.accumulate(0, grad.getDx());
  if (context.wants(1)) {
    SmallVector<Expr> rows;
    for (Value sum : grad.getSums().take_front(size_t(k)))
      rows.push_back(reshape(Expr(builder, getLoc(), sum), {1, C}));
    context.accumulate(1, concat(rows, 0).value());
  }
  if (hasBias && context.wants(2))
    context.accumulate(2, grad.getSums().back());
  return success();
}
