// Optimizers in primitive ops over flat tensors whose length may be known only at run time: no constant of that length
// is made, every number is a scalar that is broadcast.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Rates.h"
#include "runtime/Format/StepParameters.h"
#include "runtime/Format/StochasticRounding.h"
#include <optional>

using namespace mlir;
using namespace ztc::graph;
using ztc::StepParameter;

/// The value that is updated: the f32 master of a narrow parameter, or what it holds itself.
static Expr masterOf(const Expr &parameter, Value master) {
  if (!master)
    return widen(parameter);
  if (parameter.elementType().isF16())
    return parameter.with(master);
  Type type = parameter.type().clone(parameter.builder().getF32Type());
  return parameter.with(
      JoinMasterOp::create(parameter.builder(), parameter.loc(), type, parameter.value(), master).getMaster());
}

/// The numbers of all elements, `index` counting them in the whole bucket.
template <typename Op> static Expr elementNumbers(Op op, const Expr &index) {
  if (!op.getNumbers())
    return index;
  const ArrayRef<int64_t> starts = *op.getStarts();
  const Expr numbers = index.with(op.getNumbers());
  auto number = [&](int64_t tensor) { return broadcastLike(reshape(slice(numbers, {tensor}, {1}), {}), index); };
  Expr first = number(0);
  for (int64_t tensor = 1; tensor < int64_t(starts.size()); ++tensor)
    first = select(index < constantLike(index, static_cast<double>(starts[tensor])), first, number(tensor));
  return first + index;
}

/// A field of the step parameters in every element of a tensor like `like`.
static Expr fieldLike(const Expr &like, Value hyper, StepParameter parameter) {
  Expr scalar = reshape(slice(like.with(hyper), {static_cast<int64_t>(parameter)}, {1}), {});
  return broadcastLike(castTo(scalar, like.elementType()), like);
}

/// Where each element of a tensor like `like` stands in the whole bucket, also in a shard of it.
static Expr placesLike(const Expr &like) {
  OpBuilder &builder = like.builder();
  return like.with(
      IotaOp::create(builder, like.loc(), cast<RankedTensorType>(like.type().clone(builder.getI64Type())), 0));
}

/// What is stored of the new `value` of something: in codes or rounded stochastically where its type is that, `old`
/// where the update does not proceed (`proceed` in every element). `numbers` are the elements', once something needs
/// them.
template <typename Op>
static Value keptValue(Op op, const Expr &value, const Expr &old, int64_t stream, const Expr &proceed,
                       std::optional<Expr> &numbers) {
  OpBuilder &builder = value.builder();
  const Location loc = value.loc();
  if (isa<Block8Type>(old.elementType()))
    return EncodeBlocksOp::create(builder, loc, old.type(), value.value(), old.value(), proceed.value()).getY();
  Expr next = value;
  if (value.elementType() != old.elementType()) {
    if (!numbers)
      numbers = elementNumbers(op, placesLike(value));
    next = value.with(StochasticRoundOp::create(builder, loc, old.type(), value.value(), numbers->value(),
                                                fieldLike(value, op.getHyper(), StepParameter::RandomSeed).value(),
                                                fieldLike(value, op.getHyper(), StepParameter::RandomStep).value(),
                                                builder.getI64IntegerAttr(stream)));
  }
  return select(proceed, next, old).value();
}

/// The numbers of a state, of the type of `computed`.
static Expr stateNumbers(const Expr &computed, Value state) {
  if (!isa<Block8Type>(getElementTypeOrSelf(state.getType())))
    return widen(computed.with(state));
  return computed.with(
      DecodeBlocksOp::create(computed.builder(), computed.loc(), cast<RankedTensorType>(computed.type()), state));
}

/// The first part of torch.optim.Muon: b' = lerp(b, g, 1 - momentum); the direction lerp(g, b', momentum) is rounded
/// to bf16, as what makes it orthogonal begins by rounding it.
FailureOr<SmallVector<Value>> MomentumDirectionOp::decompose(OpBuilder &builder) {
  const Expr stored(builder, getLoc(), getGradient());
  const Expr wide = widen(stored);
  const Expr g = wide * broadcastLike(castTo(wide.with(getGradientScale()), wide.elementType()), wide);
  const Expr old = stateNumbers(wide, getMomentum());
  const Expr rest = 1.0 - fieldLike(wide, getHyper(), StepParameter::Momentum);
  const Expr momentum = old + rest * (g - old);
  const Expr direction = momentum - (momentum - g) * rest;
  std::optional<Expr> numbers;
  return SmallVector<Value>{castTo(direction, getElementTypeOrSelf(getDirection().getType())).value(),
                            keptValue(*this, momentum, wide.with(getMomentum()), /*stream=*/0,
                                      broadcastLike(wide.with(getProceed()), wide), numbers)};
}

FailureOr<SmallVector<Value>> OptimizerStepOp::decompose(OpBuilder &builder) {
  const OptimizerRule *rule = findOptimizer(getOptimizer());
  if (!rule)
    return emitOpError("no optimizer '") << getOptimizer() << "' is registered", failure();
  const Location loc = getLoc();
  SmallVector<Value> oldStates = keptValues();
  const Value master = oldStates.size() > rule->statesOfStep() ? oldStates.pop_back_val() : Value();
  const Expr stored(builder, loc, getParameter()), p = masterOf(stored, master);
  SmallVector<Expr> states;
  for (Value state : oldStates)
    states.push_back(stateNumbers(p, state));
  const Type element = p.elementType();
  auto field = [&](StepParameter parameter) { return fieldLike(p, getHyper(), parameter); };
  auto index = [&] { return placesLike(p); };
  const RateFactors rates = rateFactorsOf(*this), changes = changeFactorsOf(*this);
  /// The factor of each element.
  auto factors = [&](const RateFactors &rates) {
    if (rates.empty())
      return constantLike(p, 1);
    Expr factor = constantLike(p, rates.factors.back());
    if (rates.factors.size() == 1)
      return factor;
    const Expr place = index();
    for (size_t run = rates.factors.size() - 1; run-- > 0;)
      factor = select(place < constantLike(place, static_cast<double>(rates.ends[run])),
                      constantLike(p, rates.factors[run]), factor);
    return factor;
  };
  auto hyper = [&](StepParameter parameter) {
    if (!rates.empty() && (parameter == StepParameter::LearningRate || parameter == StepParameter::StepSize))
      return field(parameter) * factors(rates);
    if (!rates.empty() && parameter == StepParameter::DecayFactor)
      return 1.0 - field(StepParameter::LearningRate) * factors(rates) * field(StepParameter::WeightDecay);
    return field(parameter);
  };
  auto whereDecayed = [&, decayed = int64_t(getDecayed())](function_ref<Expr()> with, const Expr &without) {
    if (decayed == 0)
      return without;
    if (decayed == kAllDecayed || (p.type().hasStaticShape() && decayed >= p.dim(0)))
      return with();
    Expr place = index();
    return select(place < constantLike(place, static_cast<double>(decayed)), with(), without);
  };
  const Expr g = castTo(p.with(getGradient()), element) * broadcastLike(castTo(p.with(getGradientScale()), element), p);
  OptimizerUpdate update = rule->update({p, g, states, hyper, whereDecayed, [&] { return factors(changes); }});
  if (update.states.size() != oldStates.size())
    return emitOpError("the rule of '") << getOptimizer() << "' gives " << update.states.size() << " states, expected "
                                        << oldStates.size(),
           failure();

  const Expr proceed = broadcastLike(p.with(getProceed()), p);
  std::optional<Expr> numbers; // of the elements, where something is rounded
  auto keep = [&](const Expr &value, const Expr &old, int64_t stream) {
    return keptValue(*this, value, old, stream, proceed, numbers);
  };
  SmallVector<Value> results{Value()};
  for (auto [number, state] : llvm::enumerate(update.states))
    results.push_back(keep(state, p.with(oldStates[number]), static_cast<int64_t>(number)));
  if (!master) {
    results.front() = keep(update.parameter, stored, ztc::kParameterStream);
    return results;
  }
  const Expr updated = select(proceed, update.parameter, p);
  if (stored.elementType().isBF16()) {
    auto split = SplitMasterOp::create(builder, loc, stored.type(), master.getType(), updated.value());
    results.front() = split.getParameter();
    results.push_back(split.getRemainder());
  } else {
    results.front() = castTo(updated, stored.elementType()).value();
    results.push_back(updated.value());
  }
  return results;
}
