// Optimizers in primitive ops over flat tensors whose length may be known only at run time: no constant of that length
// is made, every number is a scalar that is broadcast.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
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

namespace {
/// What AdamwOp and OptimizerStepOp have in common.
struct OptimizerOperands {
  Value parameter, gradient, hyper, gradientScale, proceed;
  SmallVector<Value> states;
  Value master; ///< may be null
  int64_t decayed;
};
} // namespace

static SmallVector<Value> decomposeOptimizer(OpBuilder &builder, Location loc, const OptimizerRule &rule,
                                             const OptimizerOperands &op) {
  Expr stored(builder, loc, op.parameter), p = masterOf(stored, op.master);
  SmallVector<Expr> states;
  for (Value state : op.states)
    states.push_back(widen(p.with(state)));
  Type element = p.elementType();
  /// A scalar in every element.
  auto spread = [&](const Expr &scalar) { return broadcastLike(scalar, p); };
  auto hyper = [&](StepParameter parameter) {
    Expr vector = p.with(op.hyper);
    return spread(castTo(reshape(slice(vector, {static_cast<int64_t>(parameter)}, {1}), {}), element));
  };
  // The index is that of the whole bucket, also in a shard of it.
  auto index = [&] {
    return p.with(IotaOp::create(builder, loc, cast<RankedTensorType>(p.type().clone(builder.getI64Type())), 0));
  };

  Expr g = castTo(p.with(op.gradient), element) * spread(castTo(p.with(op.gradientScale), element));
  Expr decayed = p;
  if (op.decayed > 0) {
    decayed = p * hyper(StepParameter::DecayFactor);
    if (!p.type().hasStaticShape() || op.decayed < p.dim(0)) {
      Expr place = index();
      decayed = select(place < constantLike(place, static_cast<double>(op.decayed)), decayed, p);
    }
  }
  OptimizerUpdate update = rule.update({p, decayed, g, states, hyper});

  Expr proceed = broadcastLike(p.with(op.proceed), p);
  auto keep = [&](const Expr &state, const Expr &old, int64_t stream) {
    Expr next = state;
    if (state.elementType() != old.elementType())
      next = p.with(StochasticRoundOp::create(
          builder, loc, old.type(), state.value(), index().value(), hyper(StepParameter::RandomSeed).value(),
          hyper(StepParameter::RandomStep).value(), builder.getI64IntegerAttr(stream)));
    return select(proceed, next, old).value();
  };
  Expr updated = select(proceed, update.parameter, p);
  SmallVector<Value> results{updated.value()};
  for (auto [number, state] : llvm::enumerate(update.states))
    results.push_back(keep(state, p.with(op.states[number]), static_cast<int64_t>(number)));
  if (stored.elementType().isBF16()) {
    auto split = SplitMasterOp::create(builder, loc, stored.type(), op.master.getType(), updated.value());
    results.front() = split.getParameter();
    results.push_back(split.getRemainder());
  } else if (op.master) {
    results.front() = castTo(updated, stored.elementType()).value();
    results.push_back(updated.value());
  }
  return results;
}

FailureOr<SmallVector<Value>> AdamwOp::decompose(OpBuilder &builder) {
  return decomposeOptimizer(builder, getLoc(), *findOptimizer("adamw"),
                            {getParameter(),
                             getGradient(),
                             getHyper(),
                             getGradientScale(),
                             getProceed(),
                             {getExpAvg(), getExpAvgSq()},
                             getMaster(),
                             int64_t(getDecayed())});
}

FailureOr<SmallVector<Value>> OptimizerStepOp::decompose(OpBuilder &builder) {
  const OptimizerRule *rule = findOptimizer(getOptimizer());
  if (!rule)
    return emitOpError("no optimizer '") << getOptimizer() << "' is registered", failure();
  SmallVector<Value> kept = keptValues();
  Value master = kept.size() > rule->states.size() ? kept.pop_back_val() : Value();
  SmallVector<Value> results = decomposeOptimizer(builder, getLoc(), *rule,
                                                  {getParameter(), getGradient(), getHyper(), getGradientScale(),
                                                   getProceed(), kept, master, int64_t(getDecayed())});
  if (results.size() != 1 + getKept().size())
    return emitOpError("the rule of '") << getOptimizer() << "' gives " << results.size() - 1 - (master ? 1 : 0)
                                        << " states, expected " << rule->states.size(),
           failure();
  return results;
}
