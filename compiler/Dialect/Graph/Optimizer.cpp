// Gradient accumulation and the optimizer: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"

using namespace mlir;
using namespace ztc::graph;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
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
  // (C2)
  RankedTensorType hyper = tensorOf(getHyper());
  if (hyper.getRank() != 1 || !hyper.getElementType().isF32())
    return emitOpError("hyper is not 1-D f32: ") << hyper;
  if (tensorOf(getGradientScale()).getRank() != 0)
    return emitOpError("gradient_scale is not a scalar: ") << tensorOf(getGradientScale());
  if (tensorOf(getProceed()).getRank() != 0)
    return emitOpError("proceed is not a scalar: ") << tensorOf(getProceed());
  return success();
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

int64_t OptimizerStepOp::getFlops() {
  const OptimizerRule *rule = findOptimizer(getOptimizer());
  return (rule ? rule->flops : 0) * elementCount(getParameter());
}
int64_t SumSquaresOp::getFlops() {
  return 2 * elementCount(getX());
}
