// Normalisation, softmax and gated activations in primitive ops, in the order in which PyTorch computes them. Every
// reduction and every broadcast runs over the last dimension (or over all others: the weight), as a kernel that works
// row by row wants it.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

/// 1 / sqrt(mean(x^2) + epsilon) of each row, (..., 1).
static Expr inverseRms(const Expr &x, double epsilon) {
  Expr mean = reduceSumLast(x * x) / static_cast<double>(x.type().getShape().back());
  return rsqrt(mean + epsilon);
}

FailureOr<SmallVector<Value>> RmsNormOp::decompose(OpBuilder &builder) {
  Expr x(builder, getLoc(), getX()), weight = castTo(x.with(getWeight()), x.elementType());
  Expr r = inverseRms(x, getEpsilon().convertToDouble());
  Expr y = x * broadcastLike(r, x) * broadcastLike(weight, x);
  return SmallVector<Value>{y.value()};
}

FailureOr<SmallVector<Value>> RmsNormGradOp::decompose(OpBuilder &builder) {
  Expr x(builder, getLoc(), getX()), dy = x.with(getDy()), weight = castTo(x.with(getWeight()), x.elementType());
  int64_t width = x.type().getShape().back();
  Expr r = inverseRms(x, getEpsilon().convertToDouble());
  Expr rows = broadcastLike(r, x);
  Expr h = dy * broadcastLike(weight, x);
  Expr mean = reduceSumLast(x * h) / static_cast<double>(width);
  Expr dx = rows * h - x * broadcastLike(r * r * r * mean, x);
  Expr dweight = dy * (x * rows);
  if (x.rank() > 1)
    dweight = reduceSum(dweight, llvm::to_vector(llvm::seq<int64_t>(0, x.rank() - 1)));
  dweight = castTo(reshape(dweight, {width}), cast<RankedTensorType>(getWeight().getType()).getElementType());
  return SmallVector<Value>{dx.value(), dweight.value()};
}

FailureOr<SmallVector<Value>> SoftmaxOp::decompose(OpBuilder &builder) {
  Expr x(builder, getLoc(), getX());
  Expr e = exp(x - broadcastLike(reduceMaxLast(x), x));
  return SmallVector<Value>{(e / broadcastLike(reduceSumLast(e), e)).value()};
}

FailureOr<SmallVector<Value>> SwigluOp::decompose(OpBuilder &builder) {
  Expr gate(builder, getLoc(), getGate()), up = gate.with(getUp());
  return SmallVector<Value>{(gate * sigmoid(gate) * up).value()};
}

FailureOr<SmallVector<Value>> SwigluGradOp::decompose(OpBuilder &builder) {
  Expr gate(builder, getLoc(), getGate()), up = gate.with(getUp()), dy = gate.with(getDy());
  Expr s = sigmoid(gate);
  Expr dgate = dy * up * (s * (1.0 + gate * (1.0 - s)));
  Expr dup = dy * (gate * s);
  return SmallVector<Value>{dgate.value(), dup.value()};
}
