// Gradient accumulation and the optimizer: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;

static RankedTensorType tensorOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

LogicalResult AdamwOp::verify() {
  RankedTensorType parameter = tensorOf(getParameter()), gradient = tensorOf(getGradient());
  // (C1): parameter and states have one type by a trait; a layout on the mesh is a matter of the encoding
  if (parameter.getRank() != 1 || gradient.getShape() != parameter.getShape() ||
      gradient.getEncoding() != parameter.getEncoding())
    return emitOpError("parameter and gradient are not 1-D of one length: ") << parameter << " and " << gradient;
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
