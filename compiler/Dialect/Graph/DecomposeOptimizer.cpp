// AdamW in primitive ops over flat tensors whose length may be known only at run time: no constant of that length is
// made, every number is a scalar that is broadcast.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/StepParameters.h"

using namespace mlir;
using namespace ztc::graph;
using ztc::StepParameter;

/// The f32 master of a narrow parameter.
static Expr masterOf(const Expr &parameter, Value master) {
  if (!master || parameter.elementType().isF16())
    return master ? parameter.with(master) : parameter;
  Type type = parameter.type().clone(parameter.builder().getF32Type());
  return parameter.with(
      JoinMasterOp::create(parameter.builder(), parameter.loc(), type, parameter.value(), master).getMaster());
}

FailureOr<SmallVector<Value>> AdamwOp::decompose(OpBuilder &builder) {
  Expr stored(builder, getLoc(), getParameter()), p = masterOf(stored, getMaster());
  Expr storedM = p.with(getExpAvg()), storedV = p.with(getExpAvgSq()), m = widen(storedM), v = widen(storedV);
  Type element = p.elementType();
  /// A scalar in every element.
  auto spread = [&](const Expr &scalar) { return broadcastLike(scalar, p); };
  auto hyper = [&](StepParameter parameter) {
    Expr vector = p.with(getHyper());
    return spread(castTo(reshape(slice(vector, {static_cast<int64_t>(parameter)}, {1}), {}), element));
  };
  // The index is that of the whole bucket, also in a shard of it.
  auto index = [&] {
    return p.with(IotaOp::create(builder, getLoc(), cast<RankedTensorType>(p.type().clone(builder.getI64Type())), 0));
  };

  Expr g = castTo(p.with(getGradient()), element) * spread(castTo(p.with(getGradientScale()), element));
  Expr decayed = p;
  if (int64_t count = getDecayed(); count > 0) {
    decayed = p * hyper(StepParameter::DecayFactor);
    if (!p.type().hasStaticShape() || count < p.dim(0)) {
      Expr place = index();
      decayed = select(place < constantLike(place, static_cast<double>(count)), decayed, p);
    }
  }
  Expr newM = m + (g - m) * hyper(StepParameter::OneMinusBeta1);
  Expr newV = v * hyper(StepParameter::Beta2) + hyper(StepParameter::OneMinusBeta2) * g * g;
  Expr denominator = sqrt(newV) * hyper(StepParameter::InverseSqrtCorrection2) + hyper(StepParameter::Epsilon);
  Expr newP = decayed - hyper(StepParameter::StepSize) * newM / denominator;

  Expr proceed = broadcastLike(p.with(getProceed()), p);
  auto keep = [&](const Expr &state, const Expr &old, int64_t stream) {
    Expr next = state;
    if (state.elementType() != old.elementType())
      next = p.with(StochasticRoundOp::create(
          builder, getLoc(), old.type(), state.value(), index().value(), hyper(StepParameter::RandomSeed).value(),
          hyper(StepParameter::RandomStep).value(), builder.getI64IntegerAttr(stream)));
    return select(proceed, next, old).value();
  };
  Expr updated = select(proceed, newP, p);
  SmallVector<Value> results{updated.value(), keep(newM, storedM, 0), keep(newV, storedV, 1)};
  if (stored.elementType().isBF16()) {
    auto split = SplitMasterOp::create(builder, getLoc(), stored.type(), getMaster().getType(), updated.value());
    results.front() = split.getParameter();
    results.push_back(split.getRemainder());
  } else if (getMaster()) {
    results.front() = castTo(updated, stored.elementType()).value();
    results.push_back(updated.value());
  }
  return results;
}
