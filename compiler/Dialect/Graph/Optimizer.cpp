// Gradient accumulation and the optimizer: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"

using namespace mlir;
using namespace ztc::graph;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// (C2): what of an update is the same for all elements.
template <typename Update> static LogicalResult verifyNumbers(Update op) {
  RankedTensorType hyper = tensorOf(op.getHyper());
  if (hyper.getRank() != 1 || !hyper.getElementType().isF32())
    return op.emitOpError("hyper is not 1-D f32: ") << hyper;
  if (tensorOf(op.getGradientScale()).getRank() != 0)
    return op.emitOpError("gradient_scale is not a scalar: ") << tensorOf(op.getGradientScale());
  if (tensorOf(op.getProceed()).getRank() != 0)
    return op.emitOpError("proceed is not a scalar: ") << tensorOf(op.getProceed());
  return success();
}

LogicalResult AdamwOp::verify() {
  RankedTensorType parameter = tensorOf(getParameter()), gradient = tensorOf(getGradient());
  // (C1): a layout on the mesh is a matter of the encoding
  auto alike = [&](RankedTensorType type) {
    return type.getShape() == parameter.getShape() && type.getEncoding() == parameter.getEncoding();
  };
  RankedTensorType states = tensorOf(getExpAvg());
  if (parameter.getRank() != 1 || !alike(gradient))
    return emitOpError("parameter and gradient are not 1-D of one length: ") << parameter << " and " << gradient;
  if (!alike(states))
    return emitOpError("parameter and states are not of one length: ") << parameter << " and " << states;
  // (C3)
  Type element = parameter.getElementType(), master;
  if (element.isBF16())
    master = IntegerType::get(getContext(), 16);
  else if (element.isF16())
    master = Float32Type::get(getContext());
  if (!master != !getMaster() || !getMaster() != !getNewMaster())
    return emitOpError("has ") << (getMaster() ? "a" : "no") << " master beside a parameter of " << element;
  if (master && (tensorOf(getMaster()) != parameter.clone(master) || getNewMaster().getType() != getMaster().getType()))
    return emitOpError("the master of a parameter of ") << element << " is " << tensorOf(getMaster());
  // (C4)
  if (Type state = states.getElementType(); !state.isBF16() && state != computeType(element))
    return emitOpError("states of ") << state << " beside a parameter of " << element;
  return verifyNumbers(*this);
}

SmallVector<Value> AdamwOp::keptValues() {
  SmallVector<Value> values{getExpAvg(), getExpAvgSq()};
  if (getMaster())
    values.push_back(getMaster());
  return values;
}

SmallVector<Value> AdamwOp::newKeptValues() {
  SmallVector<Value> values{getNewExpAvg(), getNewExpAvgSq()};
  if (getNewMaster())
    values.push_back(getNewMaster());
  return values;
}

LogicalResult OptimizerStepOp::verify() {
  RankedTensorType parameter = tensorOf(getParameter()), gradient = tensorOf(getGradient());
  // (C1)
  auto alike = [&](Value value) {
    return tensorOf(value).getShape() == parameter.getShape() &&
           tensorOf(value).getEncoding() == parameter.getEncoding();
  };
  if (parameter.getRank() != 1 || !alike(getGradient()))
    return emitOpError("parameter and gradient are not 1-D of one length: ") << parameter << " and " << gradient;
  for (Value kept : getKept())
    if (!alike(kept))
      return emitOpError("parameter and states are not of one length: ") << parameter << " and " << tensorOf(kept);
  // (C6)
  if (getKept().getTypes() != getNewKept().getTypes())
    return emitOpError("what is kept has other types afterwards");
  // (C5)
  const OptimizerRule *rule = findOptimizer(getOptimizer());
  if (!rule)
    return emitOpError("no optimizer '") << getOptimizer() << "' is registered";
  Type element = parameter.getElementType(), master;
  if (element.isBF16())
    master = IntegerType::get(getContext(), 16);
  else if (element.isF16())
    master = Float32Type::get(getContext());
  const size_t expected = rule->states.size() + (master ? 1 : 0);
  if (getKept().size() != expected)
    return emitOpError("keeps ") << getKept().size() << " values of a parameter of " << element << ", expected "
                                 << expected << " with '" << getOptimizer() << "'";
  // (C3)
  if (master && getKept().back().getType() != parameter.clone(master))
    return emitOpError("the master of a parameter of ") << element << " is " << getKept().back().getType();
  // (C4)
  for (Value state : getKept().take_front(rule->states.size()))
    if (Type type = tensorOf(state).getElementType(); !type.isBF16() && type != computeType(element))
      return emitOpError("states of ") << type << " beside a parameter of " << element;
  return verifyNumbers(*this);
}

LogicalResult SumSquaresOp::verify() {
  // (C1)
  if (tensorOf(getX()).getRank() != 1)
    return emitOpError("operand is not 1-D: ") << tensorOf(getX());
  // (C2)
  if (tensorOf(getY()).getRank() != 0)
    return emitOpError("result is not a scalar: ") << tensorOf(getY());
  return success();
}

int64_t AdamwOp::getFlops() {
  return 18 * elementCount(getParameter());
}
int64_t OptimizerStepOp::getFlops() {
  const OptimizerRule *rule = findOptimizer(getOptimizer());
  return (rule ? rule->flops : 0) * elementCount(getParameter());
}
int64_t SumSquaresOp::getFlops() {
  return 2 * elementCount(getX());
}
