// Ops that move or reduce data: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace ztc::graph;

static LogicalResult verifySameElementType(Operation *op, Value x, Value y) {
  Type from = tensorOf(x).getElementType(), to = tensorOf(y).getElementType();
  if (from != to)
    return op->emitOpError("element types of operand and result differ: ") << from << " and " << to;
  return success();
}

std::optional<ztc::Alias> ReshapeOp::getAlias() {
  return ztc::Alias{getX()};
}
bool ReshapeOp::isWholeAlias() {
  return true;
}
std::optional<ztc::Alias> BarrierOp::getAlias() {
  return ztc::Alias{getX()};
}
bool BarrierOp::isWholeAlias() {
  return true;
}

/// Its elements follow one another where, after the first dimension that is cut, nothing but whole dimensions follow
/// and before it only 1s.
std::optional<ztc::Alias> SliceOp::getAlias() {
  ArrayRef<int64_t> from = tensorOf(getX()).getShape(), to = tensorOf(getY()).getShape();
  int64_t stride = 1, offset = 0;
  bool cut = false;
  for (int64_t i = int64_t(from.size()) - 1; i >= 0; --i) {
    if (cut && to[i] != 1)
      return std::nullopt;
    cut |= to[i] != from[i];
    offset += getOffsets()[i] * stride;
    stride *= from[i];
  }
  return ztc::Alias{getX(), offset * ztc::elementBytes(getY().getType())};
}

LogicalResult IotaOp::verify() {
  RankedTensorType y = tensorOf(getY());
  int64_t dimension = getDimension();
  // (C1)
  if (dimension < 0 || dimension >= y.getRank())
    return emitOpError("dimension ") << dimension << " is outside rank " << y.getRank();
  // (C2)
  if (!y.getElementType().isInteger(32) && !y.getElementType().isInteger(64))
    return emitOpError("element type is neither i32 nor i64: ") << y.getElementType();
  return success();
}

LogicalResult ReshapeOp::verify() {
  // (C1)
  if (elementCount(getX()) != elementCount(getY()))
    return emitOpError("element counts differ: ") << elementCount(getX()) << " and " << elementCount(getY());
  // (C2)
  return verifySameElementType(*this, getX(), getY());
}

LogicalResult TransposeOp::verify() {
  RankedTensorType x = tensorOf(getX()), y = tensorOf(getY());
  ArrayRef<int64_t> permutation = getPermutation();
  // (C1)
  if (static_cast<int64_t>(permutation.size()) != x.getRank())
    return emitOpError("permutation has ") << permutation.size() << " entries for rank " << x.getRank();
  SmallVector<bool> seen(x.getRank(), false);
  for (int64_t from : permutation) {
    if (from < 0 || from >= x.getRank() || seen[from])
      return emitOpError("not a permutation: entry ") << from << " is out of range or repeated";
    seen[from] = true;
  }
  // (C2)
  if (y.getRank() != x.getRank())
    return emitOpError("ranks differ: ") << x.getRank() << " and " << y.getRank();
  for (auto [i, from] : llvm::enumerate(permutation))
    if (y.getDimSize(i) != x.getDimSize(from))
      return emitOpError("result dimension ")
             << i << " is " << y.getDimSize(i) << ", operand dimension " << from << " is " << x.getDimSize(from);
  return verifySameElementType(*this, getX(), getY());
}

LogicalResult BroadcastOp::verify() {
  RankedTensorType x = tensorOf(getX()), y = tensorOf(getY());
  // (C1)
  if (x.getRank() > y.getRank())
    return emitOpError("operand rank ") << x.getRank() << " exceeds result rank " << y.getRank();
  int64_t leading = y.getRank() - x.getRank();
  for (int64_t i = 0; i < x.getRank(); ++i)
    if (x.getDimSize(i) != 1 && x.getDimSize(i) != y.getDimSize(leading + i))
      return emitOpError("operand dimension ") << i << " is " << x.getDimSize(i) << ", result dimension " << leading + i
                                               << " is " << y.getDimSize(leading + i);
  // (C2)
  return verifySameElementType(*this, getX(), getY());
}

LogicalResult SliceOp::verify() {
  RankedTensorType x = tensorOf(getX()), y = tensorOf(getY());
  ArrayRef<int64_t> offsets = getOffsets();
  // (C1)
  if (static_cast<int64_t>(offsets.size()) != x.getRank() || y.getRank() != x.getRank())
    return emitOpError("operand rank ") << x.getRank() << ", result rank " << y.getRank() << " and " << offsets.size()
                                        << " offsets differ";
  // (C2)
  for (auto [i, offset] : llvm::enumerate(offsets))
    if (offset < 0 || offset + y.getDimSize(i) > x.getDimSize(i))
      return emitOpError("slice leaves dimension ")
             << i << ": offset " << offset << " and size " << y.getDimSize(i) << " of " << x.getDimSize(i);
  return verifySameElementType(*this, getX(), getY());
}

LogicalResult PadOp::verify() {
  RankedTensorType x = tensorOf(getX()), y = tensorOf(getY());
  ArrayRef<int64_t> low = getLow();
  // (C1)
  if (static_cast<int64_t>(low.size()) != x.getRank() || y.getRank() != x.getRank())
    return emitOpError("operand rank ") << x.getRank() << ", result rank " << y.getRank() << " and " << low.size()
                                        << " low paddings differ";
  // (C2)
  for (auto [i, before] : llvm::enumerate(low))
    if (before < 0 || before + x.getDimSize(i) > y.getDimSize(i))
      return emitOpError("operand leaves result dimension ")
             << i << ": low padding " << before << " and size " << x.getDimSize(i) << " of " << y.getDimSize(i);
  return verifySameElementType(*this, getX(), getY());
}

LogicalResult ConcatOp::verify() {
  RankedTensorType y = tensorOf(getY());
  int64_t axis = getAxis(), size = 0;
  // (C1)
  if (axis < 0 || axis >= y.getRank())
    return emitOpError("axis ") << axis << " is outside rank " << y.getRank();
  // (C2)
  for (Value input : getInputs()) {
    RankedTensorType x = tensorOf(input);
    if (x.getRank() != y.getRank())
      return emitOpError("ranks of operand and result differ: ") << x.getRank() << " and " << y.getRank();
    for (int64_t i = 0; i < y.getRank(); ++i)
      if (i != axis && x.getDimSize(i) != y.getDimSize(i))
        return emitOpError("dimension ") << i << " of operand and result differ: " << x.getDimSize(i) << " and "
                                         << y.getDimSize(i);
    if (failed(verifySameElementType(*this, input, getY())))
      return failure();
    size += x.getDimSize(axis);
  }
  // (C3)
  if (size != y.getDimSize(axis))
    return emitOpError("sizes along axis ")
           << axis << " add up to " << size << ", the result has " << y.getDimSize(axis);
  return success();
}

static LogicalResult verifyReduction(Operation *op, Value operand, ArrayRef<int64_t> axes, Value result) {
  RankedTensorType x = tensorOf(operand), y = tensorOf(result);
  // (C1)
  for (auto [i, axis] : llvm::enumerate(axes)) {
    if (axis < 0 || axis >= x.getRank())
      return op->emitOpError("axis ") << axis << " is outside rank " << x.getRank();
    if (i > 0 && axes[i - 1] >= axis)
      return op->emitOpError("axes are not sorted and distinct: ") << axes[i - 1] << " before " << axis;
  }
  // (C2)
  auto expected = cast<RankedTensorType>(reducedType(x, axes));
  if (expected.getShape() != y.getShape())
    return op->emitOpError("result shape differs from the reduced one: ") << y << " and " << expected;
  // (C3)
  if (isa<ReduceSumOp>(op) && isAsWide(y, x))
    return success();
  return verifySameElementType(op, operand, result);
}

LogicalResult ReduceSumOp::verify() {
  return verifyReduction(*this, getX(), getAxes(), getY());
}
LogicalResult ReduceMaxOp::verify() {
  return verifyReduction(*this, getX(), getAxes(), getY());
}
int64_t ReduceSumOp::getFlops() {
  return elementCount(getX());
}
int64_t ReduceMaxOp::getFlops() {
  return elementCount(getX());
}
