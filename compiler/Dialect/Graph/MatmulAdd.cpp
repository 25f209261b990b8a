// Products with a sum: constraints, policy, workspace and cost.
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "runtime/Format/ScratchSizes.h"

using namespace mlir;
using namespace ztc::graph;
using enum ztc::Storage;

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphMatmulAdd.cpp.inc"

/// The size that is summed over, as `a` has it.
template <typename Op> static int64_t summedSize(Op op) {
  auto a = cast<RankedTensorType>(op.getA().getType());
  return a.getDimSize(a.getRank() - (op.getTransposeA() ? 2 : 1));
}

LogicalResult MatmulAddOp::verify() {
  auto a = cast<RankedTensorType>(getA().getType()), b = cast<RankedTensorType>(getB().getType()),
       c = cast<RankedTensorType>(getC().getType());
  const int64_t rank = a.getRank();
  // (C1)
  if (rank < 2 || b.getRank() != rank)
    return emitOpError("ranks are not equal and at least 2: lhs ") << rank << ", rhs " << b.getRank();
  // (C2)
  if (a.getShape().drop_back(2) != b.getShape().drop_back(2))
    return emitOpError("leading dimensions differ: lhs ") << a << ", rhs " << b;
  // (C3)
  const int64_t right = b.getDimSize(rank - (getTransposeB() ? 1 : 2));
  if (summedSize(*this) != right)
    return emitOpError("contraction sizes differ: lhs ") << summedSize(*this) << ", rhs " << right;
  // (C4)
  auto expected = cast<RankedTensorType>(matmulType(a, b, getTransposeA(), getTransposeB()));
  if (expected.getShape() != c.getShape())
    return emitOpError("what is added has another shape than the product: ") << c << " and " << expected;
  // (C5)
  if (a.getElementType() != b.getElementType() || a.getElementType() != c.getElementType() || !isNarrow(a))
    return emitOpError("element types are not one of bf16 and f16: ") << a << ", " << b << ", " << c;
  // (C6)
  if (Value vector = getBias()) {
    if (rank != 2)
      return emitOpError("has a bias, and rank ") << rank << ", not 2";
    if (vector.getType() != c.clone(c.getShape().take_back(1)))
      return emitOpError("the bias is not a vector of ")
             << c.getDimSize(1) << " elements of type " << c.getElementType() << ": " << vector.getType();
  }
  return success();
}

ztc::PrecisionRule MatmulAddOp::getPrecisionRule() {
  ztc::PrecisionRule rule{{Narrow, Narrow, Narrow}, {Narrow}};
  if (getBias())
    rule.operands.push_back(Narrow);
  return rule;
}

template <typename Op> static ztc::Workspace workspaceOf(Op op) {
  auto y = cast<RankedTensorType>(op.getY().getType());
  const unsigned rank = y.getRank();
  const uint64_t bytes = ztc::matmulScratchBytes(y.getDimSize(rank - 2), y.getDimSize(rank - 1), summedSize(op));
  return {{{"panels", /*isPerThread=*/true, bytes, ztc::kGpuProductWorkspaceBytes}}};
}

ztc::Workspace MatmulAddOp::getWorkspace(const ztc::WorkspaceLimits &) {
  return workspaceOf(*this);
}

int64_t MatmulAddOp::getFlops() {
  return elementCount(getY()) * (2 * summedSize(*this) + (getBias() ? 2 : 1));
}

/// (C1) to (C5) of products with a bias.
template <typename Op> static LogicalResult verifyBiased(Op op) {
  auto a = cast<RankedTensorType>(op.getA().getType()), b = cast<RankedTensorType>(op.getB().getType()),
       bias = cast<RankedTensorType>(op.getBias().getType()), y = cast<RankedTensorType>(op.getY().getType());
  // (C1)
  if (a.getRank() != 2 || b.getRank() != 2 || y.getRank() != 2)
    return op.emitOpError("ranks are not 2: lhs ")
           << a.getRank() << ", rhs " << b.getRank() << ", result " << y.getRank();
  // (C2)
  const int64_t right = b.getDimSize(op.getTransposeB() ? 1 : 0);
  if (summedSize(op) != right)
    return op.emitOpError("contraction sizes differ: lhs ") << summedSize(op) << ", rhs " << right;
  // (C3)
  auto expected = cast<RankedTensorType>(matmulType(a, b, op.getTransposeA(), op.getTransposeB()));
  if (expected.getShape() != y.getShape())
    return op.emitOpError("result shape differs from that of the product: ") << y << " and " << expected;
  // (C4)
  if (bias.getShape() != y.getShape().take_back(1))
    return op.emitOpError("the bias is not a vector of ") << y.getDimSize(1) << ": " << bias;
  // (C5)
  if (!llvm::all_equal({a.getElementType(), b.getElementType(), bias.getElementType(), y.getElementType()}) ||
      !isNarrow(a))
    return op.emitOpError("element types are not one of bf16 and f16: ")
           << a << ", " << b << ", " << bias << " and " << y;
  return success();
}

LogicalResult MatmulBiasOp::verify() {
  return verifyBiased(*this);
}

ztc::PrecisionRule MatmulBiasOp::getPrecisionRule() {
  return {{Narrow, Narrow, Narrow}, {Narrow}};
}

ztc::Workspace MatmulBiasOp::getWorkspace(const ztc::WorkspaceLimits &) {
  return workspaceOf(*this);
}

int64_t MatmulBiasOp::getFlops() {
  return elementCount(getY()) * (2 * summedSize(*this) + 1);
}

LogicalResult MatmulGeluOp::verify() {
  if (failed(verifyBiased(*this)))
    return failure();
  auto y = cast<RankedTensorType>(getY().getType());
  // (C6)
  if (y.getDimSize(1) % 8 != 0)
    return emitOpError("the result has ") << y.getDimSize(1) << " columns, no multiple of 8";
  // (C7)
  if (getSums() && getSums().getType() != y)
    return emitOpError("types of sums and result differ: ") << getSums().getType() << " and " << y;
  return success();
}

ztc::PrecisionRule MatmulGeluOp::getPrecisionRule() {
  ztc::PrecisionRule rule{{Narrow, Narrow, Narrow}, {Narrow}};
  if (getSums())
    rule.results.push_back(Narrow);
  return rule;
}

ztc::Workspace MatmulGeluOp::getWorkspace(const ztc::WorkspaceLimits &) {
  return workspaceOf(*this);
}

int64_t MatmulGeluOp::getFlops() {
  constexpr int64_t kGelu = 8; // an element, a tanh counted as one
  return elementCount(getY()) * (2 * summedSize(*this) + 1 + kGelu);
}
