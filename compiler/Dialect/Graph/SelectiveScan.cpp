// The selective scan: constraints, costs, precision, derivative.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Scan.h"
#include "compiler/Dialect/Graph/TensorType.h"

using namespace mlir;
using namespace ztc::graph;
using ztc::PrecisionRule;
using enum ztc::Storage;

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphScan.cpp.inc"

namespace {

struct ScanShape {
  int64_t B, T, D, N, chunk;

  template <typename OpTy>
  explicit ScanShape(OpTy op)
      : B(tensorOf(op.getV()).getDimSize(0)), T(tensorOf(op.getV()).getDimSize(1)),
        D(tensorOf(op.getV()).getDimSize(2)), N(tensorOf(op.getRate()).getDimSize(0)), chunk(op.getChunk()) {}

  int64_t chunks() const { return int64_t(ztc::scanChunks(uint64_t(T), uint64_t(chunk))); }
  int64_t groups() const { return int64_t(ztc::scanGroups(uint64_t(D))); }
};

/// What the scan and its gradient have in common.
template <typename OpTy> LogicalResult verifyScan(OpTy op) {
  // (C1)
  if (tensorOf(op.getV()).getRank() != 3 || tensorOf(op.getRate()).getRank() != 2)
    return op.emitOpError("v is not 3-D, or rate not 2-D: ")
           << tensorOf(op.getV()) << " and " << tensorOf(op.getRate());
  // (C6)
  if (op.getChunk() <= 0 || op.getChunk() % int64_t(ztc::kScanTurn))
    return op.emitOpError("chunk is not a multiple of ") << ztc::kScanTurn << ": " << int64_t(op.getChunk());
  const ScanShape shape(op);
  const auto [B, T, D, N, chunk] = shape;
  // (C2) to (C5)
  if (failed(expectShape(op, "delta", op.getDelta(), {B, T, D})) ||
      failed(expectShape(op, "rate", op.getRate(), {N, D})) || failed(expectShape(op, "b", op.getB(), {B, T, N})) ||
      failed(expectShape(op, "c", op.getC(), {B, T, N})) ||
      failed(expectShape(op, "states", op.getStates(), {B, shape.chunks(), N, D})) ||
      failed(expectShape(op, "document_starts", op.getDocumentStarts(), {B, T})))
    return failure();
  // (C7)
  if (D % int64_t(ztc::kScanLanes))
    return op.emitOpError("has ") << D << " channels, expected a multiple of " << ztc::kScanLanes;
  // (C8)
  if (N < 1 || N > int64_t(ztc::kMaxScanStates))
    return op.emitOpError("has states of ") << N << " numbers, expected 1 to " << ztc::kMaxScanStates;
  return success();
}

} // namespace

LogicalResult SelectiveScanOp::verify() {
  if (failed(verifyScan(*this)))
    return failure();
  // (C4)
  return expectShape(*this, "y", getY(), tensorOf(getV()).getShape());
}

LogicalResult SelectiveScanGradOp::verify() {
  // (C1)
  if (failed(verifyScan(*this)))
    return failure();
  const ScanShape shape(*this);
  const auto [B, T, D, N, chunk] = shape;
  // (C2), (C3), (C4)
  for (auto [name, value] : {std::pair("dy", getDy()), std::pair("dv", getDv()), std::pair("ddelta", getDdelta())})
    if (failed(expectShape(*this, name, value, {B, T, D})))
      return failure();
  if (failed(expectShape(*this, "drate", getDrate(), {B, N, D})) ||
      failed(expectShape(*this, "db", getDb(), {shape.groups(), B, T, N})) ||
      failed(expectShape(*this, "dc", getDc(), {shape.groups(), B, T, N})))
    return failure();
  return success();
}

// Of a number of a state: the decay's exponent, exp, two products and a sum, the query's product and sum.
int64_t SelectiveScanOp::getFlops() {
  return 7 * elementCount(getV()) * ScanShape(*this).N;
}
// The states again; the cotangent (2), of dv, db and dc (6), what goes to the exponent (2), to delta and rate (4), and
// on to the position before (1).
int64_t SelectiveScanGradOp::getFlops() {
  return 20 * elementCount(getV()) * ScanShape(*this).N;
}

static PrecisionRule wideRule(Operation *op) {
  PrecisionRule rule;
  for (Value operand : op->getOperands())
    rule.operands.push_back(isa<FloatType>(getElementTypeOrSelf(operand.getType())) ? Wide : Free);
  rule.results.assign(op->getNumResults(), Wide);
  return rule;
}
PrecisionRule SelectiveScanOp::getPrecisionRule() {
  return wideRule(*this);
}
PrecisionRule SelectiveScanGradOp::getPrecisionRule() {
  return wideRule(*this);
}

ztc::Workspace SelectiveScanGradOp::getWorkspace(const ztc::WorkspaceLimits &) {
  const auto [B, T, D, N, chunk] = ScanShape(*this);
  return {{{"states", /*isPerThread=*/true, ztc::scanScratchBytes(uint64_t(chunk), uint64_t(N)),
            ztc::gpuScanScratchBytes(uint64_t(B), uint64_t(D), uint64_t(chunk), uint64_t(N))}}};
}

LogicalResult SelectiveScanOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (context.cotangent(1))
    return emitOpError("has no derivative of the states before its chunks");
  Value dy = context.cotangent(0);
  if (!dy)
    return success();
  const ScanShape shape(*this);
  const auto [B, T, D, N, chunk] = shape;
  auto type = [&](ArrayRef<int64_t> sizes) { return RankedTensorType::get(sizes, builder.getF32Type()); };
  const Type likeV = getV().getType(), parts = type({shape.groups(), B, T, N});
  auto grad = SelectiveScanGradOp::create(builder, getLoc(), TypeRange{likeV, likeV, type({B, N, D}), parts, parts},
                                          context.operand(0), context.operand(1), context.operand(2),
                                          context.operand(3), context.operand(4), context.result(1), dy,
                                          getDocumentStarts() ? context.operand(5) : Value(), getChunkAttr());
  // Parts of a sum lie in front.
  auto whole = [&](Value value, ArrayRef<int64_t> sizes) {
    Expr x(builder, getLoc(), value);
    const int64_t count = x.dim(0);
    if (count > 1)
      x = reduceSum(reshape(x, {count, x.type().getNumElements() / count}), {0});
    return reshape(x, sizes).value();
  };
  if (context.wants(0))
    context.accumulate(0, grad.getDv());
  if (context.wants(1))
    context.accumulate(1, grad.getDdelta());
  if (context.wants(2))
    context.accumulate(2, whole(grad.getDrate(), {N, D}));
  if (context.wants(3))
    context.accumulate(3, whole(grad.getDb(), {B, T, N}));
  if (context.wants(4))
    context.accumulate(4, whole(grad.getDc(), {B, T, N}));
  return success();
}
