// The loss in primitive ops, row by row of logits; linear_cross_entropy with the logits tensor: the oracle of the
// chunked form.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

namespace {
/// Rows of logits (T, V) with their targets, (T, 1) and repeated over V.
struct Rows {
  Expr logits, target, isTarget, counts;

  Rows(const Expr &narrow, Value targets)
      : logits(widen(narrow)), target(reshape(narrow.with(targets), {narrow.dim(0), 1})), isTarget(target),
        counts(target) {
    Type indices = logits.type().clone(target.elementType());
    Expr column = logits.with(IotaOp::create(logits.builder(), logits.loc(), indices, 1));
    isTarget = broadcastLike(target, column) == column;
    counts = target >= zeroLike(target);
  }
};
/// (T) weights as (T, 1) of the type of `like`.
Expr weightColumn(const Expr &like, Value weights) {
  return castTo(reshape(like.with(weights), {like.dim(0), 1}), like.elementType());
}
} // namespace

// The sum over rows is one over a (T, 1) tensor: partial sums of blocks of rows, which share a kernel with the rows.
FailureOr<SmallVector<Value>> CrossEntropyOp::decompose(OpBuilder &builder) {
  Rows rows(Expr(builder, getLoc(), getLogits()), getTargets());
  const Expr &x = rows.logits;
  Expr maximum = reduceMaxLast(x);
  Expr lse = maximum + log(reduceSumLast(exp(x - broadcastLike(maximum, x))));
  Expr wanted = reduceSumLast(select(rows.isTarget, x, zeroLike(x)));
  Expr own = lse - wanted;
  if (getWeights())
    own = own * weightColumn(lse, getWeights());
  Expr losses = select(rows.counts, own, zeroLike(lse));
  auto type = cast<RankedTensorType>(getLoss().getType());
  Expr loss = type.getRank() == 0
                  ? reshape(reduceSum(losses, {0}), {})
                  : reshape(reduceSumLast(reshape(losses, {type.getDimSize(0), losses.dim(0) / type.getDimSize(0)})),
                            type.getShape());
  return SmallVector<Value>{castTo(loss, type.getElementType()).value()};
}

FailureOr<SmallVector<Value>> CrossEntropyGradOp::decompose(OpBuilder &builder) {
  Rows rows(Expr(builder, getLoc(), getLogits()), getTargets());
  const Expr &x = rows.logits;
  Expr e = exp(x - broadcastLike(reduceMaxLast(x), x));
  Expr probability = e / broadcastLike(reduceSumLast(e), e);
  Expr hit = select(rows.isTarget, constantLike(x, 1.0), zeroLike(x));
  Expr scale = castTo(x.with(getDloss()), x.elementType());
  Expr gradient = (probability - hit) * broadcast(reshape(scale, {1, 1}), x.type().getShape());
  if (getWeights())
    gradient = gradient * broadcastLike(weightColumn(x, getWeights()), x);
  gradient = select(broadcastLike(rows.counts, x), gradient, zeroLike(x));
  return SmallVector<Value>{castTo(gradient, getElementTypeOrSelf(getDlogits().getType())).value()};
}

FailureOr<SmallVector<Value>> LinearCrossEntropyOp::decompose(OpBuilder &builder) {
  Expr hidden(builder, getLoc(), getHidden()), head = hidden.with(getHead());
  double factor = getLogitScale().convertToDouble(), cap = getSoftcap().convertToDouble();
  Expr logits = widen(matmul(hidden, head, false, true)); // of narrow factors rounded once, as they are stored
  if (factor != 1.0)
    logits = logits * factor;
  Expr bent = logits; // tanh(logits / cap)
  if (cap != 0.0) {
    bent = tanh(logits / cap);
    logits = bent * cap;
  }
  Type lossType = cast<RankedTensorType>(getLoss().getType()).clone(logits.elementType());
  Expr loss =
      hidden.with(CrossEntropyOp::create(builder, getLoc(), lossType, logits.value(), getTargets(), getWeights()));
  SmallVector<Value> results{castTo(loss, getElementTypeOrSelf(getLoss().getType())).value()};
  if (getScale()) {
    Expr scale = castTo(hidden.with(getScale()), logits.elementType());
    Expr dlogits = hidden.with(CrossEntropyGradOp::create(builder, getLoc(), logits.type(), logits.value(),
                                                          getTargets(), scale.value(), getWeights()));
    if (cap != 0.0)
      dlogits = dlogits * (1.0 - bent * bent);
    if (factor != 1.0)
      dlogits = dlogits * factor;
    dlogits = castTo(dlogits, hidden.elementType());
    results.push_back(matmul(dlogits, head).value());
    if (getDhead())
      results.push_back(
          castTo(wideMatmul(dlogits, hidden, true, false), getElementTypeOrSelf(getDhead().getType())).value());
  }
  return results;
}
