// The loss: constraints and costs.
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "runtime/Format/ScratchSizes.h"
#include <algorithm>

using namespace mlir;
using namespace ztc::graph;

static LogicalResult verifyTargets(Operation *op, Value rows, Value targets) {
  RankedTensorType x = tensorOf(rows), t = tensorOf(targets);
  if (t.getRank() != 1 || t.getDimSize(0) != x.getDimSize(0))
    return op->emitOpError("targets are not 1-D of ") << x.getDimSize(0) << " rows: " << t;
  return success();
}

static LogicalResult verifyScalar(Operation *op, StringRef what, Value value) {
  if (tensorOf(value).getRank() != 0)
    return op->emitOpError() << what << " is not a scalar: " << tensorOf(value);
  return success();
}

static LogicalResult verifyWeights(Operation *op, Value rows, Value weights) {
  if (!weights)
    return success();
  RankedTensorType x = tensorOf(rows), w = tensorOf(weights);
  if (w.getRank() != 1 || w.getDimSize(0) != x.getDimSize(0))
    return op->emitOpError("weights are not 1-D of ") << x.getDimSize(0) << " rows: " << w;
  if (!w.getElementType().isF32() && !w.getElementType().isF64())
    return op->emitOpError("weights are neither f32 nor f64: ") << w.getElementType();
  return success();
}

/// A sum of all rows, or one of each group of rows.
static LogicalResult verifyLoss(Operation *op, Value loss, Value rows) {
  const RankedTensorType type = tensorOf(loss);
  if (type.getRank() == 0)
    return success();
  const int64_t count = tensorOf(rows).getDimSize(0);
  if (type.getRank() != 1 || type.getDimSize(0) < 1 || count % type.getDimSize(0) != 0)
    return op->emitOpError("loss is neither a scalar nor 1-D of a number that divides ") << count << " rows: " << type;
  return success();
}

/// Rows of the logits that linear_cross_entropy works on at a time on the host. The more rows a chunk has, the less
/// often the head and its gradient are read and written: with 512 the products run at their full rate. What these take
/// is bounded by half of what the parameters take in f32, an eighth of what they take with gradient and moments; 16 MiB
/// are always granted. Neither the ZeRO stage nor recomputation play a part: with the chunk the order of additions in
/// the head's gradient would change.
static uint64_t chunkRows(uint64_t tokens, uint64_t vocabulary, const ztc::WorkspaceLimits &limits) {
  constexpr uint64_t kFewestRows = 16, kWantedRows = 512, kGrantedBytes = 16 << 20, kBytesPerParameter = 2;
  auto rowsIn = [&](uint64_t bytes) { return std::max(bytes / (4 * vocabulary), kFewestRows); };
  uint64_t wanted = std::min(kWantedRows, rowsIn(kBytesPerParameter * limits.parameters));
  uint64_t rows = limits.lossBytes ? rowsIn(limits.lossBytes) : std::max(rowsIn(kGrantedBytes), wanted);
  uint64_t chunks = (tokens + rows - 1) / rows;
  return (tokens + chunks - 1) / chunks;
}

/// The loss is added too: micro-steps of one step sum theirs.
bool LinearCrossEntropyOp::canAccumulate(unsigned index) {
  return index != 1;
}

ztc::Workspace LinearCrossEntropyOp::getWorkspace(const ztc::WorkspaceLimits &limits) {
  const uint64_t tokens = tensorOf(getHidden()).getDimSize(0), vocabulary = tensorOf(getHead()).getDimSize(0);
  const uint64_t width = tensorOf(getHead()).getDimSize(1), chunk = chunkRows(tokens, vocabulary, limits);
  const uint64_t logitBytes = ztc::elementBytes(getHidden().getType());
  const uint64_t gpuChunk = ztc::gpuLinearCrossEntropyChunk(tokens, vocabulary, logitBytes);
  ztc::Workspace workspace;
  workspace.parts.push_back({"logits", /*isPerThread=*/false, ztc::linearCrossEntropyScratchBytes(chunk, vocabulary),
                             ztc::gpuLinearCrossEntropyScratchBytes(gpuChunk, tokens, vocabulary, logitBytes)});
  if (isNarrow(getHidden().getType()))
    workspace.parts.push_back({"panels", /*isPerThread=*/true,
                               ztc::linearCrossEntropyPanelBytes(chunk, width, vocabulary),
                               ztc::kGpuProductWorkspaceBytes});
  workspace.rows = int64_t(chunk);
  return workspace;
}

LogicalResult CrossEntropyOp::verify() {
  RankedTensorType logits = tensorOf(getLogits()), loss = tensorOf(getLoss());
  // (C1)
  if (logits.getRank() != 2)
    return emitOpError("logits are not 2-D: ") << logits;
  if (failed(verifyTargets(*this, getLogits(), getTargets())))
    return failure();
  // (C2)
  if (failed(verifyLoss(*this, getLoss(), getLogits())))
    return failure();
  if (!isAsWide(loss, logits))
    return emitOpError("element types of logits and loss differ: ")
           << logits.getElementType() << " and " << loss.getElementType();
  // (C3)
  return verifyWeights(*this, getLogits(), getWeights());
}

LogicalResult CrossEntropyGradOp::verify() {
  // (C1)
  if (tensorOf(getLogits()).getRank() != 2)
    return emitOpError("logits are not 2-D: ") << tensorOf(getLogits());
  if (failed(verifyTargets(*this, getLogits(), getTargets())) ||
      failed(verifyWeights(*this, getLogits(), getWeights())))
    return failure();
  return verifyScalar(*this, "dloss", getDloss());
}

LogicalResult LinearCrossEntropyOp::verify() {
  RankedTensorType hidden = tensorOf(getHidden()), head = tensorOf(getHead());
  // (C1)
  if (hidden.getRank() != 2 || head.getRank() != 2)
    return emitOpError("hidden and head are not 2-D: ") << hidden << " and " << head;
  if (hidden.getDimSize(1) != head.getDimSize(1))
    return emitOpError("widths of hidden and head differ: ") << hidden.getDimSize(1) << " and " << head.getDimSize(1);
  // (C2)
  if (failed(verifyTargets(*this, getHidden(), getTargets())))
    return failure();
  // (C3)
  bool training = static_cast<bool>(getScale());
  if (training != static_cast<bool>(getDhidden()) || (getDhead() && !training))
    return emitOpError("cotangents are present without scale, or scale without them");
  if (training) {
    if (failed(verifyScalar(*this, "scale", getScale())))
      return failure();
    if (getDhidden().getType() != hidden)
      return emitOpError("types of hidden and its cotangent differ: ") << hidden << " and " << getDhidden().getType();
    if (getDhead() && (tensorOf(getDhead()).getShape() != head.getShape() || !isAsWide(getDhead().getType(), head)))
      return emitOpError("types of head and its cotangent differ: ") << head << " and " << getDhead().getType();
  }
  // (C4)
  if (failed(training ? verifyScalar(*this, "loss", getLoss()) : verifyLoss(*this, getLoss(), getHidden())))
    return failure();
  Type lossElement = tensorOf(getLoss()).getElementType();
  if (!lossElement.isF32() && !lossElement.isF64())
    return emitOpError("loss is neither f32 nor f64: ") << lossElement;
  // (C5)
  if (!getLogitScale().isFinite() || getLogitScale().isZero() || !getSoftcap().isFinite())
    return emitOpError("logit_scale and softcap are not finite, or logit_scale is 0: ")
           << getLogitScale().convertToDouble() << " and " << getSoftcap().convertToDouble();
  // (C6)
  return verifyWeights(*this, getHidden(), getWeights());
}

// Per logit: the maximum, exp(x - max) and its sum; the gradient normalises and scales.
int64_t CrossEntropyOp::getFlops() {
  return 4 * elementCount(getLogits());
}
int64_t CrossEntropyGradOp::getFlops() {
  return 6 * elementCount(getLogits());
}

int64_t LinearCrossEntropyOp::getFlops() {
  RankedTensorType hidden = tensorOf(getHidden()), head = tensorOf(getHead());
  int64_t logits = hidden.getDimSize(0) * head.getDimSize(0);
  int64_t products = getDhead() ? 3 : getScale() ? 2 : 1;
  return 2 * products * logits * hidden.getDimSize(1) + (getScale() ? 6 : 4) * logits;
}
