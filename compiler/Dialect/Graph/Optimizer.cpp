// Gradient accumulation and the optimizer: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
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

int64_t AdamwOp::getFlops() {
  return 18 * elementCount(getParameter());
}
int64_t SumSquaresOp::getFlops() {
  return 2 * elementCount(getX());
}
