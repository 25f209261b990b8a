// Rotary embedding and attention: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "runtime/Format/CudnnAttention.h"
#include <algorithm>

using namespace mlir;
using namespace ztc::graph;

LogicalResult RopeOp::verify() {
  RankedTensorType x = tensorOf(getX()), table = tensorOf(getCos());
  // (C1); (C3) is a trait
  if (x.getRank() != 4 || x.getDimSize(3) % 2 != 0)
    return emitOpError("operand is not 4-D with an even last dimension: ") << x;
  // (C2): that both tables have one type is a trait
  if (table.getRank() != 2 || table.getDimSize(0) != x.getDimSize(1) || 2 * table.getDimSize(1) != x.getDimSize(3))
    return emitOpError("tables are not (") << x.getDimSize(1) << ", " << x.getDimSize(3) / 2 << "): " << table;
  return success();
}

int64_t RopeOp::getFlops() {
  return 3 * elementCount(getX());
}

/// What blocked attention needs on each device; the form without row statistics keeps them beside its scores.
static ztc::Workspace attentionWorkspace(Value query, Value key, const ztc::AttentionExtras &extras,
                                         bool keepsStatistics, bool isGradient, const ztc::WorkspaceLimits &limits) {
  RankedTensorType q = tensorOf(query);
  const uint64_t batch = q.getDimSize(0), seq = q.getDimSize(1), heads = q.getDimSize(2), width = q.getDimSize(3);
  const uint64_t keyHeads = tensorOf(key).getDimSize(2);
  const uint64_t block = std::min(ztc::defaultAttentionBlock(seq), limits.attentionBlock);
  ztc::Workspace workspace;
  if (keepsStatistics)
    workspace.parts.push_back({"lse", /*isPerThread=*/false, 4 * batch * heads * seq});
  const uint64_t bytes = isNarrow(q) ? ztc::narrowAttentionScratchBytes(seq, width, block, isGradient)
                                     : ztc::attentionScratchBytes(seq, block, isGradient);
  const uint64_t onGpu =
      ztc::gpuAttentionScratchBytes(batch, seq, heads, keyHeads, width, isNarrow(q), isGradient, extras);
  workspace.parts.push_back(
      {"scores", /*isPerThread=*/true, bytes, onGpu ? std::optional(onGpu) : std::nullopt}); // a GPU has no threads
  workspace.rows = int64_t(block);
  return workspace;
}

template <typename OpTy> static ztc::AttentionExtras extrasOf(OpTy op) {
  return {bool(op.getDocumentStarts()), !op.getSoftcap().isZero()};
}
ztc::Workspace AttentionOp::getWorkspace(const ztc::WorkspaceLimits &limits) {
  return attentionWorkspace(getQ(), getK(), extrasOf(*this), !getLse(), /*isGradient=*/false, limits);
}
ztc::Workspace AttentionGradOp::getWorkspace(const ztc::WorkspaceLimits &limits) {
  return attentionWorkspace(getQ(), getK(), extrasOf(*this), /*keepsStatistics=*/false, /*isGradient=*/true, limits);
}

/// (C1), (C2), (C5), (C6) and (C7) of attention; its gradient has the same operands and attributes.
template <typename OpTy> static LogicalResult verifyAttention(OpTy op) {
  const bool causal = op.getCausal();
  const int64_t window = op.getWindow();
  Value documentStarts = op.getDocumentStarts();
  RankedTensorType q = tensorOf(op.getQ()), k = tensorOf(op.getK());
  if (q.getRank() != 4 || k.getRank() != 4)
    return op.emitOpError("q, k and v are not 4-D: ") << q << " and " << k;
  for (int64_t i : {0, 1, 3})
    if (q.getDimSize(i) != k.getDimSize(i))
      return op.emitOpError("dimension ")
             << i << " of q and k differ: " << q.getDimSize(i) << " and " << k.getDimSize(i);
  if (k.getDimSize(2) == 0 || q.getDimSize(2) % k.getDimSize(2) != 0)
    return op.emitOpError("key heads do not divide query heads: ") << k.getDimSize(2) << " and " << q.getDimSize(2);
  if (window < 0 || (window > 0 && !causal))
    return op.emitOpError("window ") << window << " is negative or not causal";
  if (!op.getSoftcap().isFinite() || op.getSoftcap().convertToDouble() < 0)
    return op.emitOpError("softcap is negative or not finite: ") << op.getSoftcap().convertToDouble();
  if (!documentStarts)
    return success();
  if (!causal)
    return op.emitOpError("has document_starts and is not causal");
  if (RankedTensorType starts = tensorOf(documentStarts);
      starts.getShape() != ArrayRef<int64_t>{q.getDimSize(0), q.getDimSize(1)})
    return op.emitOpError("document_starts are not (") << q.getDimSize(0) << ", " << q.getDimSize(1) << "): " << starts;
  return success();
}

static LogicalResult verifyStatistics(Operation *op, Value query, Value statistics) {
  RankedTensorType q = tensorOf(query), lse = tensorOf(statistics);
  if (lse.getShape() != ArrayRef<int64_t>{q.getDimSize(0), q.getDimSize(2), q.getDimSize(1)})
    return op->emitOpError("row statistics are not (")
           << q.getDimSize(0) << ", " << q.getDimSize(2) << ", " << q.getDimSize(1) << "): " << lse;
  return success();
}

LogicalResult AttentionOp::verify() {
  // (C1), (C2), (C5), (C6), (C7); (C3) is a trait
  if (failed(verifyAttention(*this)))
    return failure();
  // (C4)
  return getLse() ? verifyStatistics(*this, getQ(), getLse()) : success();
}

LogicalResult AttentionGradOp::verify() {
  // (C1); (C2) is a trait
  if (failed(verifyAttention(*this)))
    return failure();
  return verifyStatistics(*this, getQ(), getLse());
}

int64_t ztc::graph::visiblePairs(int64_t sequence, bool causal, int64_t window) {
  if (!causal)
    return sequence * sequence;
  // Row i sees min(i + 1, window) positions; a triangle counts as half of the square.
  if (window <= 0 || window >= sequence)
    return sequence * sequence / 2;
  return sequence * window - window * window / 2;
}

/// Two flops for each product of a visible pair and a component of a head. Of packed rows these are at most so many:
/// how long the documents are is known when they are read.
static int64_t attentionFlops(Value query, bool causal, int64_t window, int64_t products) {
  RankedTensorType q = tensorOf(query);
  return 2 * products * q.getDimSize(0) * q.getDimSize(2) * q.getDimSize(3) *
         visiblePairs(q.getDimSize(1), causal, window);
}

// Scores and their product with v.
int64_t AttentionOp::getFlops() {
  return attentionFlops(getQ(), getCausal(), getWindow(), 2);
}
// Scores again, dp, dv, dq, dk.
int64_t AttentionGradOp::getFlops() {
  return attentionFlops(getQ(), getCausal(), getWindow(), 5);
}
