// Normalisation, softmax and gated activations in primitive ops, in the order in which PyTorch computes them. Every
// reduction and every broadcast runs over the last dimension (or over all others: the weight), as a kernel that works
// row by row wants it. Narrow operands are widened, narrow results rounded once.
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

/// 1 / sqrt(mean(x^2) + epsilon) of each row, (..., 1).
static Expr inverseRms(const Expr &x, double epsilon) {
  Expr mean = reduceSumLast(x * x) / static_cast<double>(x.type().getShape().back());
  return rsqrt(mean + epsilon);
}

/// Each value in the type of its result.
static SmallVector<Value> rounded(Operation *op, ArrayRef<Expr> values) {
  SmallVector<Value> results;
  for (auto [value, result] : llvm::zip_equal(values, op->getResults()))
    results.push_back(castTo(value, getElementTypeOrSelf(result.getType())).value());
  return results;
}

FailureOr<SmallVector<Value>> RmsNormOp::decompose(OpBuilder &builder) {
  Expr place(builder, getLoc(), getX()), x = widen(place), weight = castTo(x.with(getWeight()), x.elementType());
  Expr r = inverseRms(x, getEpsilon().convertToDouble());
  Expr y = x * broadcastLike(r, x) * broadcastLike(weight, x);
  return rounded(*this, {y});
}

FailureOr<SmallVector<Value>> RmsNormGradOp::decompose(OpBuilder &builder) {
  Expr place(builder, getLoc(), getX()), x = widen(place), dy = widen(x.with(getDy()));
  Expr weight = castTo(x.with(getWeight()), x.elementType());
  int64_t width = x.type().getShape().back();
  Expr r = inverseRms(x, getEpsilon().convertToDouble());
  Expr rows = broadcastLike(r, x);
  Expr h = dy * broadcastLike(weight, x);
  Expr mean = reduceSumLast(x * h) / static_cast<double>(width);
  Expr dx = rows * h - x * broadcastLike(r * r * r * mean, x);
  Expr dweight = dy * (x * rows);
  if (x.rank() > 1)
    dweight = reduceSum(dweight, llvm::to_vector(llvm::seq<int64_t>(0, x.rank() - 1)));
  return rounded(*this, {dx, reshape(dweight, {width})});
}

FailureOr<SmallVector<Value>> SoftmaxOp::decompose(OpBuilder &builder) {
  Expr x = widen(Expr(builder, getLoc(), getX()));
  Expr e = exp(x - broadcastLike(reduceMaxLast(x), x));
  return rounded(*this, {e / broadcastLike(reduceSumLast(e), e)});
}

/// sigmoid(x), marked where all that is made of it is rounded to the narrow type of `results`.
static Expr sigmoidFor(const Expr &x, ResultRange results) {
  Expr s = sigmoid(x);
  if (llvm::all_of(results.getTypes(), isNarrow))
    s.value().getDefiningOp()->setAttr(kRoundedNarrow, UnitAttr::get(s.value().getContext()));
  return s;
}

FailureOr<SmallVector<Value>> SwigluOp::decompose(OpBuilder &builder) {
  Expr place(builder, getLoc(), getGate()), gate = widen(place), up = widen(gate.with(getUp()));
  return rounded(*this, {gate * sigmoidFor(gate, getOperation()->getResults()) * up});
}

FailureOr<SmallVector<Value>> SwigluGradOp::decompose(OpBuilder &builder) {
  Expr place(builder, getLoc(), getGate()), gate = widen(place), up = widen(gate.with(getUp())),
                                            dy = widen(gate.with(getDy()));
  Expr s = sigmoidFor(gate, getOperation()->getResults());
  Expr dgate = dy * up * (s * (1.0 + gate * (1.0 - s)));
  Expr dup = dy * (gate * s);
  return rounded(*this, {dgate, dup});
}
