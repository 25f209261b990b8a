// Gradient accumulation and the optimizer: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Rates.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "runtime/Format/MatrixOwners.h"

using namespace mlir;
using namespace ztc::graph;

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
    return emitOpError("states and master have other types afterwards");
  // (C5)
  const OptimizerRule *rule = findOptimizer(getOptimizer());
  if (!rule)
    return emitOpError("no optimizer '") << getOptimizer() << "' is registered";
  Type element = parameter.getElementType(), master;
  if (element.isBF16())
    master = IntegerType::get(getContext(), 16);
  else if (element.isF16())
    master = Float32Type::get(getContext());
  const size_t states = rule->statesOfStep(), expected = states + (master ? 1 : 0);
  const bool isWithoutMaster = element.isBF16() && getKept().size() == states;
  if (getKept().size() != expected && !isWithoutMaster)
    return emitOpError("keeps ") << getKept().size() << " values of a parameter of " << element << ", expected "
                                 << expected << " with '" << getOptimizer() << "'";
  // (C3)
  if (master && !isWithoutMaster && getKept().back().getType() != parameter.clone(master))
    return emitOpError("the master of a parameter of ") << element << " is " << getKept().back().getType();
  // (C4)
  for (Value state : getKept().take_front(states))
    if (Type type = tensorOf(state).getElementType();
        !type.isBF16() && !isa<Block8Type>(type) && type != computeType(element))
      return emitOpError("states of ") << type << " beside a parameter of " << element;
  // (C2)
  RankedTensorType hyper = tensorOf(getHyper());
  if (hyper.getRank() != 1 || !hyper.getElementType().isF32())
    return emitOpError("hyper is not 1-D f32: ") << hyper;
  if (tensorOf(getGradientScale()).getRank() != 0)
    return emitOpError("gradient_scale is not a scalar: ") << tensorOf(getGradientScale());
  if (tensorOf(getProceed()).getRank() != 0)
    return emitOpError("proceed is not a scalar: ") << tensorOf(getProceed());
  // (C8)
  if (failed(verifyRateFactors(*this)))
    return failure();
  // (C7)
  const ArrayRef<int64_t> starts = getStarts().value_or(ArrayRef<int64_t>());
  if (!getNumbers())
    return starts.empty() ? success() : emitOpError("has starts and no numbers");
  RankedTensorType numbers = tensorOf(getNumbers());
  if (numbers.getRank() != 1 || !numbers.getElementType().isInteger(64) ||
      numbers.getDimSize(0) != int64_t(starts.size()))
    return emitOpError("numbers are not 1-D i64 for ") << starts.size() << " starts: " << numbers;
  if (starts.empty() || starts.front() != 0 || !llvm::is_sorted(starts, std::less_equal<>()))
    return emitOpError("starts do not ascend from 0");
  return success();
}

/// (C1) of both ops: flat tensors of one length and layout.
static LogicalResult verifyBlocks(Operation *op, Value numbers, Value blocks) {
  const RankedTensorType left = tensorOf(numbers), right = tensorOf(blocks);
  if (left.getRank() != 1 || left.getShape() != right.getShape() || left.getEncoding() != right.getEncoding())
    return op->emitOpError("numbers and blocks are not 1-D of one length: ") << left << " and " << right;
  return success();
}

LogicalResult DecodeBlocksOp::verify() {
  return verifyBlocks(*this, getY(), getX());
}

LogicalResult EncodeBlocksOp::verify() {
  if (failed(verifyBlocks(*this, getX(), getY())))
    return failure();
  // (C2)
  RankedTensorType proceed = tensorOf(getProceed());
  if (!proceed.getElementType().isInteger(1))
    return emitOpError("proceed is not i1: ") << proceed;
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

LogicalResult MomentumDirectionOp::verify() {
  const RankedTensorType gradient = tensorOf(getGradient());
  // (C1)
  for (Value value : {Value(getMomentum()), Value(getDirection())})
    if (gradient.getRank() != 1 || tensorOf(value).getShape() != gradient.getShape() ||
        tensorOf(value).getEncoding() != gradient.getEncoding())
      return emitOpError("gradient, momentum and direction are not 1-D of one length: ")
             << gradient << " and " << tensorOf(value);
  // (C2)
  if (tensorOf(getHyper()).getRank() != 1 || !tensorOf(getHyper()).getElementType().isF32())
    return emitOpError("hyper is not 1-D f32: ") << tensorOf(getHyper());
  if (tensorOf(getGradientScale()).getRank() != 0)
    return emitOpError("gradient_scale is not a scalar: ") << tensorOf(getGradientScale());
  if (tensorOf(getProceed()).getRank() != 0)
    return emitOpError("proceed is not a scalar: ") << tensorOf(getProceed());
  // (C3)
  if (Type type = tensorOf(getMomentum()).getElementType();
      !type.isBF16() && !isa<Block8Type>(type) && type != computeType(gradient.getElementType()))
    return emitOpError("a momentum of ") << type << " beside a gradient of " << gradient.getElementType();
  // (C4)
  const size_t starts = getStarts().value_or(ArrayRef<int64_t>()).size();
  const size_t numbers = getNumbers() ? size_t(tensorOf(getNumbers()).getNumElements()) : 0;
  if (starts != numbers)
    return emitOpError("has ") << numbers << " numbers for " << starts << " starts";
  return success();
}

LogicalResult OrthogonalizeOp::verify() {
  // (C1)
  const int64_t rank = tensorOf(getX()).getRank();
  if (rank != 2 && rank != 3)
    return emitOpError("x has neither rank 2 nor rank 3: ") << tensorOf(getX());
  return success();
}

int64_t MomentumDirectionOp::getFlops() {
  return 8 * elementCount(getGradient());
}
int64_t OrthogonalizeOp::getFlops() {
  const RankedTensorType type = tensorOf(getX());
  return int64_t(ztc::orthogonalizationFlops({type.getShape().data(), type.getShape().size()}));
}
int64_t OptimizerStepOp::getFlops() {
  const OptimizerRule *rule = findOptimizer(getOptimizer());
  return (rule ? rule->flops : 0) * elementCount(getParameter());
}
int64_t SumSquaresOp::getFlops() {
  return 2 * elementCount(getX());
}
