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
static Expr elementNumbers(OptimizerStepOp op, const Expr &index) {
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

FailureOr<SmallVector<Value>> OptimizerStepOp::decompose(OpBuilder &builder) {
  const OptimizerRule *rule = findOptimizer(getOptimizer());
  if (!rule)
    return emitOpError("no optimizer '") << getOptimizer() << "' is registered", failure();
  const Location loc = getLoc();
  SmallVector<Value> oldStates = keptValues();
  const Value master = oldStates.size() > rule->states.size() ? oldStates.pop_back_val() : Value();
  const Expr stored(builder, loc, getParameter()), p = masterOf(stored, master);
  SmallVector<Expr> states;
  for (Value state : oldStates)
    states.push_back(isa<Block8Type>(getElementTypeOrSelf(state.getType()))
                         ? p.with(DecodeBlocksOp::create(builder, loc, cast<RankedTensorType>(p.type()), state))
                         : widen(p.with(state)));
  const Type element = p.elementType();
  /// A scalar in every element.
  auto spread = [&](const Expr &scalar) { return broadcastLike(scalar, p); };
  auto field = [&](StepParameter parameter) {
    Expr vector = p.with(getHyper());
    return spread(castTo(reshape(slice(vector, {static_cast<int64_t>(parameter)}, {1}), {}), element));
  };
  // The index is that of the whole bucket, also in a shard of it.
  auto index = [&] {
    return p.with(IotaOp::create(builder, loc, cast<RankedTensorType>(p.type().clone(builder.getI64Type())), 0));
  };
  const RateFactors rates = rateFactorsOf(*this);
  /// What the learning rate of each element is multiplied by.
  auto rateFactors = [&] {
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
      return field(parameter) * rateFactors();
    if (!rates.empty() && parameter == StepParameter::DecayFactor)
      return 1.0 - field(StepParameter::LearningRate) * rateFactors() * field(StepParameter::WeightDecay);
    return field(parameter);
  };
  auto whereDecayed = [&, decayed = int64_t(getDecayed())](function_ref<Expr()> with, const Expr &without) {
    if (decayed == 0)
      return without;
    if (p.type().hasStaticShape() && decayed >= p.dim(0))
      return with();
    Expr place = index();
    return select(place < constantLike(place, static_cast<double>(decayed)), with(), without);
  };
  const Expr g = castTo(p.with(getGradient()), element) * spread(castTo(p.with(getGradientScale()), element));
  OptimizerUpdate update = rule->update({p, g, states, hyper, whereDecayed});
  if (update.states.size() != oldStates.size())
    return emitOpError("the rule of '") << getOptimizer() << "' gives " << update.states.size() << " states, expected "
                                        << oldStates.size(),
           failure();

  const Expr proceed = broadcastLike(p.with(getProceed()), p);
  std::optional<Expr> numbers; // of the elements, where something is rounded
  auto keep = [&](const Expr &value, const Expr &old, int64_t stream) -> Value {
    if (isa<Block8Type>(old.elementType()))
      return EncodeBlocksOp::create(builder, loc, old.type(), value.value(), old.value(), proceed.value()).getY();
    Expr next = value;
    if (value.elementType() != old.elementType()) {
      if (!numbers)
        numbers = elementNumbers(*this, index());
      next = p.with(StochasticRoundOp::create(
          builder, loc, old.type(), value.value(), numbers->value(), hyper(StepParameter::RandomSeed).value(),
          hyper(StepParameter::RandomStep).value(), builder.getI64IntegerAttr(stream)));
    }
    return select(proceed, next, old).value();
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
