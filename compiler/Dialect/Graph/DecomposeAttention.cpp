// Rotary embedding and attention in primitive ops. The rotary embedding takes this road to kernels; attention, whose
// decomposition holds (S, S) tensors, only in the tests that hold the library call against it. Narrow tensors are
// rounded where RationaleNumerics.md says.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include <limits>

using namespace mlir;
using namespace ztc::graph;

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

FailureOr<SmallVector<Value>> RopeOp::decompose(OpBuilder &builder) {
  Expr place(builder, getLoc(), getX()), x = widen(place);
  int64_t half = x.dim(3) / 2;
  Expr x1 = sliceLast(x, 0, half), x2 = sliceLast(x, half, half);
  // (S, D/2) -> (S, 1, D/2) -> (B, S, H, D/2)
  auto table = [&](Value values) {
    return broadcastLike(reshape(castTo(x.with(values), x.elementType()), {x.dim(1), 1, half}), x1);
  };
  Expr c = table(getCos()), s = table(getSin());
  Expr y1 = getInverse() ? x1 * c + x2 * s : x1 * c - x2 * s;
  Expr y2 = getInverse() ? x2 * c - x1 * s : x2 * c + x1 * s;
  return SmallVector<Value>{castTo(concat({y1, y2}, 3), place.elementType()).value()};
}

namespace {
/// Attention with its heads in front: all tensors (B, Hq, S, D), scores (B, Hq, S, S).
struct HeadsFirst {
  int64_t batch, sequence, heads, keyHeads, width;

  HeadsFirst(Value query, Value key) {
    auto q = cast<RankedTensorType>(query.getType()), k = cast<RankedTensorType>(key.getType());
    batch = q.getDimSize(0), sequence = q.getDimSize(1), heads = q.getDimSize(2), width = q.getDimSize(3);
    keyHeads = k.getDimSize(2);
  }

  Expr query(const Expr &q) const { return transpose(q, {0, 2, 1, 3}); }

  /// Repeats each key head for the query heads of its group.
  Expr key(const Expr &k) const {
    Expr x = transpose(k, {0, 2, 1, 3});
    if (heads == keyHeads)
      return x;
    x = reshape(x, {batch, keyHeads, 1, sequence, width});
    x = broadcast(x, {batch, keyHeads, heads / keyHeads, sequence, width});
    return reshape(x, {batch, heads, sequence, width});
  }

  Expr queryBack(const Expr &dq) const { return transpose(dq, {0, 2, 1, 3}); }

  /// The transpose of `key`: sums over the query heads of a group.
  Expr keyBack(const Expr &dk) const {
    Expr x = dk;
    if (heads != keyHeads) {
      x = reduceSum(reshape(x, {batch, keyHeads, heads / keyHeads, sequence, width}), {2});
      x = reshape(x, {batch, keyHeads, sequence, width});
    }
    return transpose(x, {0, 2, 1, 3});
  }

  /// `x` where position i sees position j, `hidden` elsewhere. `starts` (B, S) is null where a row is one document.
  Expr mask(const Expr &x, double hidden, bool causal, int64_t window, Value starts) const {
    if (!causal)
      return x;
    OpBuilder &builder = x.builder();
    auto index = RankedTensorType::get(x.type().getShape(), builder.getI32Type());
    Expr i = x.with(IotaOp::create(builder, x.loc(), index, 2)), j = x.with(IotaOp::create(builder, x.loc(), index, 3));
    Expr visible = j <= i;
    if (window > 0)
      visible = visible & (i - j < constantLike(i, static_cast<double>(window)));
    if (starts)
      visible = visible & (broadcastLike(reshape(x.with(starts), {batch, 1, sequence, 1}), j) <= j);
    return select(visible, x, constantLike(x, hidden));
  }
};
} // namespace

FailureOr<SmallVector<Value>> AttentionOp::decompose(OpBuilder &builder) {
  HeadsFirst layout(getQ(), getK());
  Expr q(builder, getLoc(), getQ());
  Expr v = layout.key(q.with(getV()));
  Expr scores = wideMatmul(layout.query(q), layout.key(q.with(getK())), false, true) * getScale().convertToDouble();
  if (const double cap = getSoftcap().convertToDouble(); cap != 0.0)
    scores = tanh(scores / cap) * cap;
  scores = layout.mask(scores, -kInfinity, getCausal(), getWindow(), getDocumentStarts());
  Expr maximum = reduceMaxLast(scores);
  Expr e = exp(scores - broadcastLike(maximum, scores));
  Expr sum = reduceSumLast(e);
  Expr out = layout.queryBack(matmul(castTo(e / broadcastLike(sum, e), q.elementType()), v));
  SmallVector<Value> results{out.value()};
  if (getLse()) {
    auto type = cast<RankedTensorType>(getLse().getType());
    results.push_back(castTo(reshape(maximum + log(sum), type.getShape()), type.getElementType()).value());
  }
  return results;
}

FailureOr<SmallVector<Value>> AttentionGradOp::decompose(OpBuilder &builder) {
  HeadsFirst layout(getQ(), getK());
  double scale = getScale().convertToDouble();
  Expr place(builder, getLoc(), getQ());
  Expr q = layout.query(place), k = layout.key(place.with(getK())), v = layout.key(place.with(getV()));
  Expr out = layout.query(place.with(getOut())), dout = layout.query(place.with(getDout()));
  Type narrow = q.elementType();
  Expr lse = castTo(place.with(getLse()), computeType(narrow));
  lse = reshape(lse, {layout.batch, layout.heads, layout.sequence, 1});

  Expr scores = wideMatmul(q, k, false, true) * scale, bent = scores; // tanh(scores / cap)
  const double cap = getSoftcap().convertToDouble();
  if (cap != 0.0) {
    bent = tanh(scores / cap);
    scores = bent * cap;
  }
  Expr p = layout.mask(exp(scores - broadcastLike(lse, scores)), 0.0, getCausal(), getWindow(), getDocumentStarts());
  Expr delta = reduceSumLast(widen(dout) * widen(out));
  Expr dp = wideMatmul(dout, v, false, true);
  Expr ds = p * (dp - broadcastLike(delta, dp)) * scale;
  if (cap != 0.0)
    ds = ds * (1.0 - bent * bent);
  ds = castTo(ds, narrow);
  Expr dq = layout.queryBack(matmul(ds, k));
  Expr dk = castTo(layout.keyBack(wideMatmul(ds, q, true, false)), narrow);
  Expr dv = castTo(layout.keyBack(wideMatmul(castTo(p, narrow), dout, true, false)), narrow);
  return SmallVector<Value>{dq.value(), dk.value(), dv.value()};
}
