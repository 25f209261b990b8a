// Linear attention and causal convolution: constraints and costs.
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace ztc::graph;

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphRecurrence.cpp.inc"

int64_t ztc::graph::chunkOf(int64_t sequence) {
  constexpr int64_t kLeast = 64, kMost = 256, kChunks = 64;
  int64_t chunk = kLeast;
  while (chunk < kMost && chunk * kChunks < sequence)
    chunk *= 2;
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
  if (!llvm::isPowerOf2_64(getChunk()))
    return emitOpError("chunk is not a power of two: ") << int64_t(getChunk());
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
