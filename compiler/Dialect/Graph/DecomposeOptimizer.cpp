// AdamW in primitive ops over flat tensors whose length may be known only at run time: no constant of that length is
// made, every number is a scalar that is broadcast.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/StepParameters.h"

using namespace mlir;
using namespace ztc::graph;
using ztc::StepParameter;

FailureOr<SmallVector<Value>> AdamwOp::decompose(OpBuilder &builder) {
  Expr p(builder, getLoc(), getParameter()), m = p.with(getExpAvg()), v = p.with(getExpAvgSq());
  Type element = p.elementType();
  /// A scalar of the parameter's type, in every element.
  auto spread = [&](const Expr &scalar) { return broadcastLike(castTo(scalar, element), p); };
  auto hyper = [&](StepParameter parameter) {
    Expr vector = p.with(getHyper());
    return spread(reshape(slice(vector, {static_cast<int64_t>(parameter)}, {1}), {}));
  };

  Expr g = castTo(p.with(getGradient()), element) * spread(p.with(getGradientScale()));
  Expr decayed = p;
  if (int64_t count = getDecayed(); count > 0) {
    decayed = p * hyper(StepParameter::DecayFactor);
    if (!p.type().hasStaticShape() || count < p.dim(0)) {
      // The index is that of the whole bucket, also in a shard of it.
      auto type = cast<RankedTensorType>(p.type().clone(builder.getI64Type()));
      Expr index = p.with(IotaOp::create(builder, getLoc(), type, 0));
      decayed = select(index < constantLike(index, static_cast<double>(count)), decayed, p);
    }
  }
  Expr newM = m + (g - m) * hyper(StepParameter::OneMinusBeta1);
  Expr newV = v * hyper(StepParameter::Beta2) + hyper(StepParameter::OneMinusBeta2) * g * g;
  Expr denominator = sqrt(newV) * hyper(StepParameter::InverseSqrtCorrection2) + hyper(StepParameter::Epsilon);
  Expr newP = decayed - hyper(StepParameter::StepSize) * newM / denominator;

  Expr proceed = broadcastLike(p.with(getProceed()), p);
  return SmallVector<Value>{select(proceed, newP, p).value(), select(proceed, newM, m).value(),
                            select(proceed, newV, v).value()};
}
