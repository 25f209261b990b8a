// Elementwise ops: constraints, folds and costs. Their derivatives are the table in GraphElementwise.td and
// VjpElementwise.cpp.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"

using namespace mlir;
using namespace ztc::graph;

LogicalResult PowerOp::verify() {
  // (C1)
  if (!isa<FloatType>(tensorOf(getX()).getElementType()))
    return emitOpError("element type is not a float: ") << tensorOf(getX()).getElementType();
  return success();
}

int64_t PowerOp::getFlops() {
  return elementCount(getY());
}

LogicalResult RoundOp::verify() {
  // (C1)
  if (!isa<FloatType>(tensorOf(getX()).getElementType()))
    return emitOpError("element type is not a float: ") << tensorOf(getX()).getElementType();
  return success();
}

int64_t RoundOp::getFlops() {
  return elementCount(getY());
}

LogicalResult CompareOp::verify() {
  // (C1)
  RankedTensorType a = tensorOf(getA()), y = tensorOf(getY());
  if (!y.getElementType().isInteger(1))
    return emitOpError("result element type is not i1: ") << y.getElementType();
  if (a.getShape() != y.getShape())
    return emitOpError("shapes of operands and result differ: ") << a << " and " << y;
  return success();
}

LogicalResult SelectOp::verify() {
  RankedTensorType condition = tensorOf(getCondition()), y = tensorOf(getY());
  // (C1)
  if (!condition.getElementType().isInteger(1))
    return emitOpError("condition is not i1: ") << condition.getElementType();
  // (C2): the types of a, b and the result are equal by a trait
  if (condition.getShape() != y.getShape())
    return emitOpError("shapes of condition and result differ: ") << condition << " and " << y;
  return success();
}

int64_t SelectOp::getFlops() {
  return elementCount(getY());
}

OpFoldResult SelectOp::fold(FoldAdaptor adaptor) {
  if (getA() == getB())
    return getA();
  if (auto condition = dyn_cast_if_present<SplatElementsAttr>(adaptor.getCondition()))
    return condition.getSplatValue<bool>() ? getA() : getB();
  return {};
}

LogicalResult LogicOp::verify() {
  // (C1)
  if (!isa<IntegerType>(tensorOf(getY()).getElementType()))
    return emitOpError("element type is not an integer: ") << tensorOf(getY()).getElementType();
  return success();
}

/// The element types of an op whose values have one shape by a trait.
static LogicalResult verifyElements(Operation *op, StringRef constraint, ArrayRef<Type> expected) {
  SmallVector<Value> values(op->getOperands());
  llvm::append_range(values, op->getResults());
  for (auto [index, value, type] : llvm::enumerate(values, expected))
    if (tensorOf(value).getElementType() != type)
      return op->emitOpError() << (index < op->getNumOperands() ? "operand" : "result") << " type "
                               << tensorOf(value).getElementType() << " should be " << type << " (" << constraint
                               << ")";
  return success();
}

LogicalResult StochasticRoundOp::verify() {
  Builder b(getContext());
  // (C1), (C2)
  return verifyElements(*this, "C1, C2",
                        {b.getF32Type(), b.getI64Type(), b.getF32Type(), b.getF32Type(), b.getBF16Type()});
}

LogicalResult RandomBitsOp::verify() {
  Builder b(getContext());
  Type i64 = b.getI64Type(), f32 = b.getF32Type();
  return verifyElements(*this, "C1", {i64, i64, i64, f32, f32, b.getI32Type()});
}

LogicalResult DropoutOp::verify() {
  // (C1)
  RankedTensorType x = tensorOf(getX());
  if (!isa<FloatType>(x.getElementType()) || x.getRank() != 2)
    return emitOpError("operand is not a float tensor of rank 2: ") << x;
  // (C2)
  if (double probability = getProbability().convertToDouble(); !(probability > 0 && probability < 1))
    return emitOpError("probability is not between 0 and 1: ") << probability;
  return success();
}

int64_t DropoutOp::getFlops() {
  return elementCount(getY());
}

LogicalResult JoinMasterOp::verify() {
  Builder b(getContext());
  return verifyElements(*this, "C1", {b.getBF16Type(), b.getI16Type(), b.getF32Type()});
}

LogicalResult SplitMasterOp::verify() {
  Builder b(getContext());
  return verifyElements(*this, "C1", {b.getF32Type(), b.getBF16Type(), b.getI16Type()});
}

int64_t CastOp::getFlops() {
  return elementCount(getY());
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  if (getX().getType() == getY().getType())
    return getX();
  // What was widened is rounded to what it was.
  if (auto wide = getX().getDefiningOp<CastOp>(); wide && wide.getX().getType() == getY().getType() &&
                                                  isAsWide(getX().getType(), getY().getType()) &&
                                                  isa<FloatType>(tensorOf(getY()).getElementType()))
    return wide.getX();
  // A splat changes its element type; the conversion between floats is the one rounding the op makes.
  auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getX());
  auto target = tensorOf(getY()).getElementType();
  auto from = splat ? dyn_cast<FloatType>(splat.getElementType()) : FloatType();
  auto to = dyn_cast<FloatType>(target);
  if (!from || !to)
    return {};
  APFloat number = splat.getSplatValue<APFloat>();
  bool losesInformation;
  number.convert(to.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInformation);
  return DenseElementsAttr::get(tensorOf(getY()), number);
}
