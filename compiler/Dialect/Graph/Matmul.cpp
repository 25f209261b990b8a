// Matrix products: constraints, result type and cost.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "runtime/Format/ScratchSizes.h"

using namespace mlir;
using namespace ztc::graph;

Type ztc::graph::matmulType(Type a, Type b, bool transposeA, bool transposeB) {
  auto left = cast<RankedTensorType>(a), right = cast<RankedTensorType>(b);
  if (left.getRank() < 2 || right.getRank() < 2)
    return UnrankedTensorType::get(left.getElementType());
  SmallVector<int64_t> shape(left.getShape());
  shape[left.getRank() - 2] = left.getDimSize(left.getRank() - (transposeA ? 1 : 2));
  shape[left.getRank() - 1] = right.getDimSize(right.getRank() - (transposeB ? 2 : 1));
  return RankedTensorType::get(shape, left.getElementType());
}

/// The size that is summed over, as `a` has it.
static int64_t contraction(MatmulOp op) {
  RankedTensorType a = tensorOf(op.getA());
  return a.getDimSize(a.getRank() - (op.getTransposeA() ? 2 : 1));
}

bool MatmulOp::canAccumulate(unsigned) {
  return true;
}

ztc::Workspace MatmulOp::getWorkspace(const ztc::WorkspaceLimits &) {
  if (!isNarrow(getA().getType()))
    return {};
  RankedTensorType y = tensorOf(getY());
  const unsigned rank = y.getRank();
  const uint64_t bytes = ztc::matmulScratchBytes(y.getDimSize(rank - 2), y.getDimSize(rank - 1), contraction(*this));
  return {{{"panels", /*isPerThread=*/true, bytes, ztc::kGpuProductWorkspaceBytes}}};
}

LogicalResult MatmulOp::verify() {
  RankedTensorType a = tensorOf(getA()), b = tensorOf(getB()), y = tensorOf(getY());
  int64_t rank = a.getRank();
  // (C1)
  if (rank < 2 || b.getRank() != rank)
    return emitOpError("ranks are not equal and at least 2: lhs ") << rank << ", rhs " << b.getRank();
  // (C2)
  if (a.getShape().drop_back(2) != b.getShape().drop_back(2))
    return emitOpError("leading dimensions differ: lhs ") << a << ", rhs " << b;
  // (C3)
  int64_t right = b.getDimSize(rank - (getTransposeB() ? 1 : 2));
  if (contraction(*this) != right)
    return emitOpError("contraction sizes differ: lhs ") << contraction(*this) << ", rhs " << right;
  // (C5)
  if (a.getElementType() != b.getElementType())
    return emitOpError("element types differ: lhs ") << a.getElementType() << ", rhs " << b.getElementType();
  // (C4): the element type of the result may be wider (a gradient in f32 of bf16 operands)
  auto expected = cast<RankedTensorType>(matmulType(a, b, getTransposeA(), getTransposeB()));
  if (expected.getShape() != y.getShape())
    return emitOpError("result shape differs from that of the product: ") << y << " and " << expected;
  return success();
}

int64_t MatmulOp::getFlops() {
  return 2 * elementCount(getY()) * contraction(*this);
}
