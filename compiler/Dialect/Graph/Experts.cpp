// Rows that go to groups: constraints, costs, precision, derivatives.
#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "runtime/Format/ScratchSizes.h"

using namespace mlir;
using namespace ztc::graph;
using ztc::PrecisionRule;
using enum ztc::Storage;

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphExperts.cpp.inc"

static LogicalResult expectRank(Operation *op, StringRef what, Value value, int64_t rank) {
  if (tensorOf(value).getRank() == rank)
    return success();
  return op->emitOpError() << what << " is not " << rank << "-D: " << tensorOf(value);
}

LogicalResult RouteOp::verify() {
  // (C1)
  if (failed(expectRank(*this, "choices", getChoices(), 2)))
    return failure();
  // (C2)
  if (failed(expectShape(*this, "order", getOrder(), {tensorOf(getChoices()).getNumElements()})) ||
      failed(expectShape(*this, "places", getPlaces(), tensorOf(getChoices()).getShape())))
    return failure();
  if (tensorOf(getStarts()).getRank() != 1 || tensorOf(getStarts()).getDimSize(0) < 2)
    return emitOpError("starts is ") << tensorOf(getStarts()) << ", expected a number for each expert and one more";
  return success();
}

/// (C1) and (C2) of dispatch and combine; `tokens` and `rows`: which of x and y has a row for each token, which one for
/// each choice.
static LogicalResult verifyRows(Operation *op, Value tokens, Value rows, Value order, Value places) {
  if (failed(expectRank(op, "places", places, 2)) || failed(expectRank(op, "x", tokens, 2)))
    return failure();
  const int64_t T = tensorOf(places).getDimSize(0), K = tensorOf(places).getDimSize(1),
                D = tensorOf(tokens).getDimSize(1);
  if (failed(expectShape(op, "what has a row for each token", tokens, {T, D})) ||
      failed(expectShape(op, "what has a row for each choice", rows, {T * K, D})) ||
      failed(expectShape(op, "order", order, {T * K})))
    return failure();
  if (tensorOf(tokens).getElementType() != tensorOf(rows).getElementType())
    return op->emitOpError("element types differ: ") << tensorOf(tokens) << " and " << tensorOf(rows);
  return success();
}

LogicalResult DispatchOp::verify() {
  return verifyRows(*this, getX(), getY(), getOrder(), getPlaces());
}
LogicalResult CombineOp::verify() {
  return verifyRows(*this, getY(), getX(), getOrder(), getPlaces());
}

/// Fails unless `starts` has a number for each of the groups of `stack` (E, ., .), and one more.
static LogicalResult verifyGroups(Operation *op, StringRef what, Value stack, Value starts) {
  if (failed(expectRank(op, what, stack, 3)))
    return failure();
  return expectShape(op, "starts", starts, {tensorOf(stack).getDimSize(0) + 1});
}

LogicalResult GroupedMatmulOp::verify() {
  RankedTensorType x = tensorOf(getX()), w = tensorOf(getW());
  // (C1), (C2)
  if (failed(expectRank(*this, "x", getX(), 2)) || failed(verifyGroups(*this, "w", getW(), getStarts())))
    return failure();
  const bool transposed = getTransposeB();
  if (x.getDimSize(1) != w.getDimSize(transposed ? 2 : 1))
    return emitOpError("contraction sizes differ: x ") << x << ", w " << w;
  // (C3)
  if (failed(expectShape(*this, "y", getY(), {x.getDimSize(0), w.getDimSize(transposed ? 1 : 2)})))
    return failure();
  // (C4)
  if (x.getElementType() != w.getElementType() || !isAsWide(getY().getType(), x))
    return emitOpError("element types do not fit: x ") << x << ", w " << w << ", y " << tensorOf(getY());
  return success();
}

LogicalResult GroupedOuterOp::verify() {
  RankedTensorType a = tensorOf(getA()), b = tensorOf(getB());
  // (C1), (C2)
  if (failed(expectRank(*this, "a", getA(), 2)) || failed(verifyGroups(*this, "y", getY(), getStarts())) ||
      failed(expectShape(*this, "b", getB(), {a.getDimSize(0), tensorOf(getY()).getDimSize(2)})))
    return failure();
  // (C3)
  if (failed(expectShape(*this, "y", getY(), {tensorOf(getY()).getDimSize(0), a.getDimSize(1), b.getDimSize(1)})))
    return failure();
  // (C4)
  if (a.getElementType() != b.getElementType() || !isAsWide(getY().getType(), a))
    return emitOpError("element types do not fit: a ") << a << ", b " << b << ", y " << tensorOf(getY());
  return success();
}

int64_t RouteOp::getFlops() {
  return 0;
}
int64_t DispatchOp::getFlops() {
  return 0;
}
int64_t CombineOp::getFlops() {
  return elementCount(getX());
}
int64_t GroupedMatmulOp::getFlops() {
  return 2 * elementCount(getY()) * tensorOf(getX()).getDimSize(1);
}
int64_t GroupedOuterOp::getFlops() {
  return 2 * elementCount(getA()) * tensorOf(getB()).getDimSize(1);
}

PrecisionRule GroupedMatmulOp::getPrecisionRule() {
  return {{Narrow, Narrow, Free}, {Narrow}};
}
// The gradient of weights adds up in f32 over micro-steps.
PrecisionRule GroupedOuterOp::getPrecisionRule() {
  return {{Narrow, Narrow, Free}, {Asked}};
}

/// Panels of the host where it has no instruction for the type; a GPU's kernel needs nothing.
static ztc::Workspace panels(Value factor, int64_t m, int64_t n, int64_t k) {
  if (!isNarrow(factor.getType()))
    return {};
  return {{{"panels", /*isPerThread=*/true, ztc::matmulScratchBytes(m, n, k), 0}}};
}
ztc::Workspace GroupedMatmulOp::getWorkspace(const ztc::WorkspaceLimits &) {
  return panels(getX(), tensorOf(getX()).getDimSize(0), tensorOf(getY()).getDimSize(1), tensorOf(getX()).getDimSize(1));
}
ztc::Workspace GroupedOuterOp::getWorkspace(const ztc::WorkspaceLimits &) {
  return panels(getA(), tensorOf(getA()).getDimSize(1), tensorOf(getB()).getDimSize(1), tensorOf(getA()).getDimSize(0));
}
bool GroupedOuterOp::canAccumulate(unsigned) {
  return true;
}

LogicalResult DispatchOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (Value cotangent = context.cotangent(0); cotangent && context.wants(0))
    context.accumulate(
        0, CombineOp::create(builder, getLoc(), getX().getType(), cotangent, context.operand(1), context.operand(2)));
  return success();
}

LogicalResult CombineOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (Value cotangent = context.cotangent(0); cotangent && context.wants(0))
    context.accumulate(
        0, DispatchOp::create(builder, getLoc(), getX().getType(), cotangent, context.operand(1), context.operand(2)));
  return success();
}

/// `cotangent` in the type of the factors that it is multiplied with: both have one.
static Value asFactor(OpBuilder &builder, Location loc, Value cotangent, Value factor) {
  return castTo(Expr(builder, loc, cotangent), getElementTypeOrSelf(factor.getType())).value();
}

// With A = x[r] and W = op(w[e]): dA = g W^T, and dw is A^T g or its transpose. The weight's side comes first, as in
// MatmulOp.
LogicalResult GroupedMatmulOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (!context.cotangent(0))
    return success();
  Value g = asFactor(builder, getLoc(), context.cotangent(0), getX()), starts = context.operand(2);
  const bool transposed = getTransposeB();
  if (context.wants(1)) {
    Value x = context.operand(0);
    context.accumulate(
        1, GroupedOuterOp::create(builder, getLoc(), getW().getType(), transposed ? g : x, transposed ? x : g, starts));
  }
  if (context.wants(0))
    context.accumulate(
        0, GroupedMatmulOp::create(builder, getLoc(), getX().getType(), g, context.operand(1), starts, !transposed));
  return success();
}

// da[r] = b[r] g[e]^T, db[r] = a[r] g[e].
LogicalResult GroupedOuterOp::buildVjp(OpBuilder &builder, ztc::VjpContext &context) {
  if (!context.cotangent(0))
    return success();
  Value g = asFactor(builder, getLoc(), context.cotangent(0), getA()), starts = context.operand(2);
  if (context.wants(0))
    context.accumulate(0, GroupedMatmulOp::create(builder, getLoc(), getA().getType(), context.operand(1), g, starts,
                                                  /*transpose_b=*/true));
  if (context.wants(1))
    context.accumulate(1, GroupedMatmulOp::create(builder, getLoc(), getB().getType(), context.operand(0), g, starts,
                                                  /*transpose_b=*/false));
  return success();
}
