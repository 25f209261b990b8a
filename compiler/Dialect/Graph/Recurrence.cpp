// Linear attention, causal convolution, what they are written out as: constraints, costs, precision.
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "runtime/Format/RecurrenceKernels.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ztc::graph;

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphRecurrence.cpp.inc"

int64_t ztc::graph::chunkOf(int64_t sequence) {
  int64_t chunk = int64_t(ztc::kMaxUnitLowerRows);
  while (chunk > 1 && chunk * 2 > sequence + 1)
    chunk /= 2;
  return chunk;
}

static LogicalResult verifyStarts(Operation *op, Value starts, Value past, ArrayRef<int64_t> rows) {
  if (starts && past)
    return op->emitOpError("has document_starts and a past");
  return expectShape(op, "document_starts", starts, rows);
}

LogicalResult LinearAttentionOp::verify() {
  RankedTensorType q = tensorOf(getQ()), k = tensorOf(getK()), v = tensorOf(getV());
  // (C1)
  if (q.getRank() != 4 || k.getRank() != 4 || v.getRank() != 4)
    return emitOpError("q, k and v are not 4-D: ") << q << ", " << k << " and " << v;
  const int64_t B = q.getDimSize(0), T = q.getDimSize(1), H = k.getDimSize(2), K = q.getDimSize(3), V = v.getDimSize(3);
  if (failed(expectShape(*this, "k", getK(), {B, T, H, K})) || failed(expectShape(*this, "v", getV(), {B, T, H, V})))
    return failure();
  // (C2)
  if (H == 0 || q.getDimSize(2) % H != 0)
    return emitOpError("key heads do not divide query heads: ") << H << " and " << q.getDimSize(2);
  // (C3)
  if (getDecay() && tensorOf(getDecay()).getShape() != ArrayRef<int64_t>{B, T, H, 1} &&
      failed(expectShape(*this, "decay", getDecay(), {B, T, H, K})))
    return failure();
  // (C4)
  if (getDelta() != (getBeta() != nullptr))
    return emitOpError(getDelta() ? "follows the delta rule and has no beta" : "has beta without the delta rule");
  if (failed(expectShape(*this, "beta", getBeta(), {B, T, H, 1})))
    return failure();
  // (C5), (C6), (C7)
  if (failed(expectShape(*this, "past", getPast(), {B, H, K, V})) ||
      failed(expectShape(*this, "state", getState(), {B, H, K, V})) ||
      failed(expectShape(*this, "y", getY(), {B, T, q.getDimSize(2), V})) ||
      failed(verifyStarts(*this, getDocumentStarts(), getPast(), {B, T})))
    return failure();
  // (C8)
  if (!llvm::isPowerOf2_64(getChunk()) || getChunk() > ztc::kMaxUnitLowerRows)
    return emitOpError("chunk is not a power of two up to ") << ztc::kMaxUnitLowerRows << ": " << int64_t(getChunk());
  return success();
}

// The recurrence itself: the state's update, the delta rule's read, and the query's.
int64_t LinearAttentionOp::getFlops() {
  const int64_t width = tensorOf(getQ()).getDimSize(3);
  return 2 * width * (elementCount(getY()) + elementCount(getV()) * (getDelta() ? 2 : 1));
}

LogicalResult CausalConvolutionOp::verify() {
  RankedTensorType x = tensorOf(getX()), weight = tensorOf(getWeight());
  // (C1); (C5) is a trait
  if (x.getRank() != 3 || weight.getRank() != 2 || weight.getDimSize(0) != x.getDimSize(2) || weight.getDimSize(1) < 1)
    return emitOpError("x is not 3-D, or the weight not 2-D of its channels: ") << x << " and " << weight;
  const int64_t B = x.getDimSize(0), T = x.getDimSize(1), C = x.getDimSize(2);
  // (C2), (C3), (C4)
  if (failed(expectShape(*this, "bias", getBias(), {C})) ||
      failed(expectShape(*this, "past", getPast(), {B, weight.getDimSize(1) - 1, C})))
    return failure();
  return verifyStarts(*this, getDocumentStarts(), getPast(), {B, T});
}

int64_t CausalConvolutionOp::getFlops() {
  return elementCount(getX()) * (2 * tensorOf(getWeight()).getDimSize(1) + (getBias() ? 1 : 0));
}

/// (C1) of filters, and what stands beside x.
static LogicalResult verifyFilter(Operation *op, RankedTensorType x, RankedTensorType taps, Value documentStarts) {
  if (x.getRank() != 3 || taps.getRank() != 2 || taps.getDimSize(1) != x.getDimSize(2) || taps.getDimSize(0) < 1)
    return op->emitOpError("x is not 3-D, or taps not 2-D of its channels: ") << x << " and " << taps;
  return expectShape(op, "document_starts", documentStarts, {x.getDimSize(0), x.getDimSize(1)});
}

LogicalResult CausalFilterOp::verify() {
  // (C1), (C2); (C3) is a trait
  if (failed(verifyFilter(*this, tensorOf(getX()), tensorOf(getTaps()), getDocumentStarts())))
    return failure();
  return expectShape(*this, "bias", getBias(), {tensorOf(getX()).getDimSize(2)});
}

LogicalResult CausalFilterGradOp::verify() {
  // (C1), (C3)
  RankedTensorType taps = tensorOf(getTaps());
  if (failed(verifyFilter(*this, tensorOf(getX()), taps, getDocumentStarts())))
    return failure();
  // (C2)
  const int64_t sums = taps.getDimSize(0) + (getBias() ? 1 : 0);
  if (int64_t(getSums().size()) != sums)
    return emitOpError("has ") << getSums().size() << " sums, expected " << sums;
  for (Value sum : getSums())
    if (failed(expectShape(*this, "a sum", sum, {taps.getDimSize(1)})))
      return failure();
  return success();
}

int64_t CausalFilterOp::getFlops() {
  return elementCount(getX()) * (2 * tensorOf(getTaps()).getDimSize(0) + (getBias() ? 1 : 0));
}
int64_t CausalFilterGradOp::getFlops() {
  return elementCount(getX()) * (4 * tensorOf(getTaps()).getDimSize(0) + (getBias() ? 1 : 0));
}

// Gradients of parameters add up in f32.
ztc::PrecisionRule CausalFilterGradOp::getPrecisionRule() {
  using enum ztc::Storage;
  ztc::PrecisionRule rule{{Narrow, Narrow, Narrow}, {Narrow}};
  if (getDocumentStarts())
    rule.operands.push_back(Free);
  rule.results.append(getSums().size(), Wide);
  return rule;
}

LogicalResult StatePassingOp::verify() {
  // (C1)
  if (!getTo() != !getFrom() || !getTo() != !getUpdate() || !getTo() != !getX())
    return emitOpError("has not all of to, from, update and x");
  if (!getTo() && !getPlus())
    return emitOpError("adds nothing to the states");
  // (C2)
  RankedTensorType last = tensorOf(getLast());
  const int64_t chunks = getChunks();
  if (last.getRank() != 3 || chunks < 1)
    return emitOpError("last is not 3-D, or there is not one chunk: ") << last << ", " << chunks << " chunks";
  const int64_t K = last.getDimSize(1), V = last.getDimSize(2), rows = chunks * last.getDimSize(0);
  if (failed(expectShape(*this, "before", getBefore(), {rows, K, V})) ||
      failed(expectShape(*this, "plus", getPlus(), {rows, K, V})))
    return failure();
  // (C3)
  if (getTo()) {
    if (tensorOf(getTo()).getRank() != 3)
      return emitOpError("to is not 3-D: ") << tensorOf(getTo());
    const int64_t C = tensorOf(getTo()).getDimSize(1);
    if (failed(expectShape(*this, "to", getTo(), {rows, C, K})) ||
        failed(expectShape(*this, "from", getFrom(), {rows, C, K})) ||
        failed(expectShape(*this, "update", getUpdate(), {rows, C, V})) ||
        failed(expectShape(*this, "x", getX(), {rows, C, V})))
      return failure();
  }
  // (C4)
  if (getDecay()) {
    RankedTensorType decay = tensorOf(getDecay());
    if (decay.getRank() != 3 || decay.getDimSize(0) != rows || (decay.getDimSize(1) != 1 && decay.getDimSize(1) != K) ||
        decay.getDimSize(2) < 1 || V % decay.getDimSize(2) != 0)
      return emitOpError("decay is ") << decay << ", expected (" << rows << ", 1 or " << K << ", a divisor of " << V
                                      << ")";
  }
  // (C5)
  if (failed(expectShape(*this, "past", getPast(), last.getShape())))
    return failure();
  // (C6)
  for (Type type : getOperation()->getOperandTypes())
    if (getElementTypeOrSelf(type) != last.getElementType())
      return emitOpError("element types differ: ") << type << " and " << last;
  for (Value result : getOperation()->getResults())
    if (getElementTypeOrSelf(result.getType()) != last.getElementType())
      return emitOpError("element types differ: ") << result.getType() << " and " << last;
  return success();
}

int64_t StatePassingOp::getFlops() {
  const int64_t states = elementCount(getBefore()), each = (getDecay() ? 1 : 0) + (getPlus() ? 1 : 0);
  return states * each + (getTo() ? 4 * elementCount(getUpdate()) * tensorOf(getLast()).getDimSize(1) : 0);
}

LogicalResult UnitLowerInverseOp::verify() {
  // (C1)
  RankedTensorType a = tensorOf(getA());
  if (a.getRank() != 3 || a.getDimSize(1) != a.getDimSize(2) || a.getDimSize(1) < 1 ||
      a.getDimSize(1) > int64_t(ztc::kMaxUnitLowerRows))
    return emitOpError("a is ") << a << ", expected square matrices of at most " << ztc::kMaxUnitLowerRows << " rows";
  return success();
}

// For each i and j < i as many elements of row j as are not 0.
int64_t UnitLowerInverseOp::getFlops() {
  const int64_t n = tensorOf(getA()).getDimSize(1);
  return tensorOf(getA()).getDimSize(0) * (n * (n * n - 1) / 3);
}
