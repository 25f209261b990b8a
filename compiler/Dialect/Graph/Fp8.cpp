// Products in fp8: constraints, policy, workspace and cost.
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "runtime/Core/Fp8.h"
#include "runtime/Format/ScratchSizes.h"

using namespace mlir;
using namespace ztc::graph;
using ztc::PrecisionRule;
using enum ztc::Storage;

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphFp8.cpp.inc"

/// (C1)
static LogicalResult verifyMatrix(Operation *op, RankedTensorType x) {
  if (x.getRank() != 2 || x.getDimSize(0) % int64_t(ztc::kFp8Tile) || x.getDimSize(1) % int64_t(ztc::kFp8Tile))
    return op->emitOpError("reads ") << x << ", which is not a matrix of sizes that are multiples of "
                                     << int64_t(ztc::kFp8Tile);
  return success();
}

/// (C3) to (C5) of the codes of `x`.
template <typename Op> static LogicalResult verifyCodes(Op op, RankedTensorType x) {
  // (C3)
  const size_t wanted = size_t(op.getByRows()) + size_t(op.getByColumns());
  if (wanted == 0 || op.getCodes().size() != wanted)
    return op.emitOpError("gives ") << op.getCodes().size() << " matrices of codes, " << wanted << " are asked for";
  // (C4)
  const int64_t transposed[] = {x.getDimSize(1), x.getDimSize(0)};
  for (auto [index, codes] : llvm::enumerate(op.getCodes())) {
    const ArrayRef<int64_t> expected = index == 0 && op.getByRows() ? x.getShape() : ArrayRef<int64_t>(transposed);
    if (tensorOf(codes).getShape() != expected)
      return op.emitOpError("gives codes ") << codes.getType() << " of " << x;
    // (C5)
    if (tensorOf(codes).getElementType() != tensorOf(op.getCodes()[0]).getElementType())
      return op.emitOpError("gives codes of two formats: ") << op.getCodes()[0].getType() << ", " << codes.getType();
  }
  return success();
}

LogicalResult QuantizeFp8Op::verify() {
  const RankedTensorType x = tensorOf(getX());
  if (failed(verifyMatrix(*this, x)))
    return failure();
  // (C2)
  if (tensorOf(getScale()).getDimSize(0) != 2)
    return emitOpError("gives ") << getScale().getType()
                                 << " as the inverse of a scale and the scale, not two elements";
  if (failed(verifyCodes(*this, x)))
    return failure();
  // (C6)
  if (getAmax() && (getElementTypeOrSelf(getAmax()) != x.getElementType() ||
                    tensorOf(getAmax()).getNumElements() % int64_t(ztc::kFp8Tile)))
    return emitOpError("reads absolute maxima ") << getAmax().getType() << " of " << x;
  return success();
}

PrecisionRule QuantizeFp8Op::getPrecisionRule() {
  PrecisionRule rule{{Narrow, Narrow}, {Wide}};
  rule.results.append(getCodes().size(), Free);
  return rule;
}

ztc::Workspace QuantizeFp8Op::getWorkspace(const ztc::WorkspaceLimits &) {
  return {{{"partials", /*isPerThread=*/false, ztc::kFp8Partials * sizeof(float)}}};
}

StringRef QuantizeFp8Op::getTransientResult() {
  return getWeight() ? "the fp8 codes of a weight" : "";
}

// A comparison, a product and a rounding.
int64_t QuantizeFp8Op::getFlops() {
  return 3 * elementCount(getX());
}

LogicalResult Fp8ScalesOp::verify() {
  // (C1)
  if (tensorOf(getAmax()).getDimSize(0) != tensorOf(getLargest()).getDimSize(0) * int64_t(ztc::kFp8ScaleRecord))
    return emitOpError("makes ") << getScales().getType() << " of " << getAmax().getType() << " and "
                                 << getLargest().getType();
  return success();
}

FailureOr<SmallVector<Value>> Fp8ScalesOp::decompose(OpBuilder &builder) {
  const int64_t count = tensorOf(getLargest()).getDimSize(0);
  Expr records = reshape(Expr(builder, getLoc(), getAmax()), {count, int64_t(ztc::kFp8ScaleRecord)});
  Expr amax = sliceLast(records, 0, 1), largest = reshape(amax.with(getLargest()), {count, 1});
  Expr bounded =
      amax.with(MaximumOp::create(builder, getLoc(), amax.value(), constantLike(amax, ztc::kSmallestFp8Range).value()));
  Expr scale = select(amax > zeroLike(amax), largest / bounded, constantLike(amax, 1.0));
  Expr inverse = constantLike(amax, 1.0) / scale;
  Expr all = concat({inverse, scale, inverse, scale}, 1);
  return SmallVector<Value>{reshape(all, tensorOf(getScales()).getShape()).value()};
}

int64_t Fp8ScalesOp::getFlops() {
  return 2 * elementCount(getLargest());
}

LogicalResult EncodeFp8Op::verify() {
  const RankedTensorType x = tensorOf(getX());
  if (failed(verifyMatrix(*this, x)) || failed(verifyCodes(*this, x)))
    return failure();
  // (C6)
  if (tensorOf(getScale()).getDimSize(0) != 2 || tensorOf(getAmax()).getDimSize(0) != 1)
    return emitOpError("reads the scale ") << getScale().getType() << " and gives the absolute maximum "
                                           << getAmax().getType() << ", not two elements and one";
  return success();
}

PrecisionRule EncodeFp8Op::getPrecisionRule() {
  PrecisionRule rule{{Narrow, Wide}, {Wide}};
  rule.results.append(getCodes().size(), Free);
  return rule;
}

bool EncodeFp8Op::canAccumulate(unsigned index) {
  return index == 0;
}

ztc::Workspace EncodeFp8Op::getWorkspace(const ztc::WorkspaceLimits &) {
  const RankedTensorType x = tensorOf(getX());
  const uint64_t blocks = ztc::fp8Blocks(uint64_t(x.getDimSize(0)), uint64_t(x.getDimSize(1)));
  return {{{"partials", /*isPerThread=*/false, blocks * sizeof(float)}}};
}

// A comparison, a product and a rounding.
int64_t EncodeFp8Op::getFlops() {
  return 3 * elementCount(getX());
}

LogicalResult Fp8CodesOp::verify() {
  // (C1)
  if (!tensorOf(getScale()).getElementType().isF32() ||
      tensorOf(getScale()).getShape() != tensorOf(getX()).getShape() ||
      tensorOf(getY()).getShape() != tensorOf(getX()).getShape())
    return emitOpError("gives ") << getY().getType() << " of " << getX().getType() << " and " << getScale().getType();
  return success();
}

int64_t Fp8CodesOp::getFlops() {
  return 2 * elementCount(getX());
}

LogicalResult NoteCodesOp::verify() {
  // (C1)
  const RankedTensorType codes = tensorOf(getCodes());
  if (failed(verifyMatrix(*this, codes)))
    return failure();
  if (getTransposed().getType() !=
      RankedTensorType::get({codes.getDimSize(1), codes.getDimSize(0)}, codes.getElementType()))
    return emitOpError("gives ") << getTransposed().getType() << " as the transposed " << codes;
  // (C2)
  if (tensorOf(getParts()).getNumElements() % int64_t(ztc::kFp8Tile) || tensorOf(getAmax()).getDimSize(0) != 1)
    return emitOpError("gives the absolute maximum ") << getAmax().getType() << " of " << getParts().getType();
  return success();
}

PrecisionRule NoteCodesOp::getPrecisionRule() {
  return {{Free, Free}, {Wide, Free}};
}

bool NoteCodesOp::canAccumulate(unsigned index) {
  return index == 0;
}

int64_t NoteCodesOp::getFlops() {
  return elementCount(getParts());
}

LogicalResult RowAmaxOp::verify() {
  const RankedTensorType x = tensorOf(getX()), y = tensorOf(getY());
  // (C1)
  if (x.getRank() != 2)
    return emitOpError("reads ") << x << ", which is not a matrix";
  // (C2)
  if (y != RankedTensorType::get({x.getDimSize(0), 1}, x.getElementType()))
    return emitOpError("gives absolute maxima ") << y << " of the rows of " << x;
  return success();
}

PrecisionRule RowAmaxOp::getPrecisionRule() {
  return {{Narrow}, {Narrow}};
}

FailureOr<SmallVector<Value>> RowAmaxOp::decompose(OpBuilder &builder) {
  Value magnitude = AbsOp::create(builder, getLoc(), getX());
  return SmallVector<Value>{ReduceMaxOp::create(builder, getLoc(), magnitude, ArrayRef<int64_t>{1})};
}

int64_t RowAmaxOp::getFlops() {
  return 2 * elementCount(getX());
}

LogicalResult TransposeCodesOp::verify() {
  const RankedTensorType codes = tensorOf(getCodes()), y = tensorOf(getY());
  // (C1)
  if (codes.getRank() != 2 || codes.getDimSize(0) % int64_t(ztc::kFp8Tile) ||
      codes.getDimSize(1) % int64_t(ztc::kFp8Tile))
    return emitOpError("reads ") << codes << ", which is not a matrix of sizes that are multiples of "
                                 << int64_t(ztc::kFp8Tile);
  // (C2)
  if (y != RankedTensorType::get({codes.getDimSize(1), codes.getDimSize(0)}, codes.getElementType()))
    return emitOpError("gives ") << y << " as the transposed " << codes;
  return success();
}

PrecisionRule TransposeCodesOp::getPrecisionRule() {
  return {{Free}, {Free}};
}

StringRef TransposeCodesOp::getTransientResult() {
  return "the fp8 codes of a weight";
}

int64_t TransposeCodesOp::getFlops() {
  return 0;
}

LogicalResult ScaledMatmulOp::verify() {
  const RankedTensorType a = tensorOf(getA()), b = tensorOf(getB()), y = tensorOf(getY());
  // (C1)
  if (a.getRank() != 2 || b.getRank() != 2 || y.getRank() != 2)
    return emitOpError("multiplies no matrices: lhs ") << a << ", rhs " << b << ", result " << y;
  // (C2)
  if (a.getDimSize(1) != b.getDimSize(1))
    return emitOpError("contraction sizes differ: lhs ") << a.getDimSize(1) << ", rhs " << b.getDimSize(1);
  // (C3)
  if (y.getDimSize(0) != a.getDimSize(0) || y.getDimSize(1) != b.getDimSize(0))
    return emitOpError("result shape differs from that of the product: ") << y << " of " << a << " and " << b;
  // (C4)
  if (isa<Float8E5M2Type>(a.getElementType()) && isa<Float8E5M2Type>(b.getElementType()))
    return emitOpError("multiplies e5m2 by e5m2, which libraries do not");
  // (C5)
  for (Value scale : {getScaleA(), getScaleB()})
    if (tensorOf(scale).getDimSize(0) != 2)
      return emitOpError("reads ") << scale.getType() << " as the inverse of a scale and the scale, not two elements";
  return success();
}

// The gradient of a weight is f32, as that of a product in bf16 is.
PrecisionRule ScaledMatmulOp::getPrecisionRule() {
  return {{Free, Free, Wide, Wide}, {Asked}};
}

bool ScaledMatmulOp::canAccumulate(unsigned) {
  return true;
}

ztc::Workspace ScaledMatmulOp::getWorkspace(const ztc::WorkspaceLimits &) {
  const RankedTensorType a = tensorOf(getA()), b = tensorOf(getB());
  const uint64_t bytes = ztc::matmulScratchBytes(a.getDimSize(0), b.getDimSize(0), a.getDimSize(1));
  return {{{"panels", /*isPerThread=*/true, bytes, ztc::kGpuProductWorkspaceBytes}}};
}

int64_t ScaledMatmulOp::getFlops() {
  return 2 * elementCount(getY()) * tensorOf(getA()).getDimSize(1);
}
