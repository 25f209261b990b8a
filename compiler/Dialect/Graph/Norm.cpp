// Normalisation, softmax and gated activations: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"

using namespace mlir;
using namespace ztc::graph;

static LogicalResult verifyNormWeight(Operation *op, Value x, Value weight) {
  RankedTensorType row = tensorOf(x), scale = tensorOf(weight);
  if (row.getRank() < 1)
    return op->emitOpError("operand has no dimension to normalise");
  if (scale.getRank() != 1 || scale.getDimSize(0) != row.getShape().back())
    return op->emitOpError("weight is not 1-D of the last dimension: ") << scale << " for " << row;
  return success();
}

LogicalResult RmsNormOp::verify() {
  // (C1); (C2) is a trait
  if (failed(verifyNormWeight(*this, getX(), getWeight())))
    return failure();
  // (C3)
  if (!(getEpsilon().convertToDouble() > 0))
    return emitOpError("epsilon is not positive: ") << getEpsilon().convertToDouble();
  return success();
}

LogicalResult RmsNormGradOp::verify() {
  // (C2); (C1) is a trait
  if (failed(verifyNormWeight(*this, getX(), getWeight())))
    return failure();
  // (C3)
  RankedTensorType weight = tensorOf(getWeight()), gradient = tensorOf(getDweight());
  if (gradient.getShape() != weight.getShape() || !isAsWide(gradient, weight))
    return emitOpError("the weight's cotangent is not a ") << weight << " or wider: " << gradient;
  return success();
}

// Square and sum; scale, weight.
int64_t RmsNormOp::getFlops() {
  return 4 * elementCount(getX());
}
// Square and sum again; h, its dot product with x, the combination; the weight's product and sum.
int64_t RmsNormGradOp::getFlops() {
  return 11 * elementCount(getX());
}
int64_t SoftmaxOp::getFlops() {
  return 5 * elementCount(getX());
}
int64_t SwigluOp::getFlops() {
  return 5 * elementCount(getGate());
}
int64_t SwigluGradOp::getFlops() {
  return 10 * elementCount(getGate());
}
