#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {

static int64_t elementBytes(Type type) {
  return (getElementTypeOrSelf(type).getIntOrFloatBitWidth() + 7) / 8;
}

/// A slice is contiguous where, behind the first dimension that is cut, nothing but whole dimensions follow and before
/// it only 1s.
static std::optional<int64_t> contiguousOffset(graph::SliceOp slice) {
  ArrayRef<int64_t> from = cast<RankedTensorType>(slice.getX().getType()).getShape();
  ArrayRef<int64_t> to = cast<RankedTensorType>(slice.getY().getType()).getShape();
  int64_t stride = 1, offset = 0;
  bool cut = false;
  for (int64_t i = int64_t(from.size()) - 1; i >= 0; --i) {
    if (cut && to[i] != 1)
      return std::nullopt;
    cut |= to[i] != from[i];
    offset += slice.getOffsets()[i] * stride;
    stride *= from[i];
  }
  return offset;
}

std::optional<Alias> aliasOf(Operation *op) {
  if (auto reshape = dyn_cast<graph::ReshapeOp>(op))
    return Alias{reshape.getX(), 0};
  if (auto barrier = dyn_cast<graph::BarrierOp>(op))
    return Alias{barrier.getX(), 0};
  if (auto view = dyn_cast<dist::ViewOp>(op))
    return Alias{view.getBucket(), int64_t(view.getOffset()) * elementBytes(view.getY().getType())};
  if (auto own = dyn_cast<dist::OwnShardOp>(op))
    return Alias{own.getFull(), 0, true};
  if (auto slice = dyn_cast<graph::SliceOp>(op))
    if (std::optional<int64_t> offset = contiguousOffset(slice))
      return Alias{slice.getX(), *offset * elementBytes(slice.getY().getType())};
  return std::nullopt;
}

Alias resolveAlias(Value value) {
  Alias result{value, 0};
  while (Operation *op = result.source.getDefiningOp()) {
    std::optional<Alias> next = aliasOf(op);
    if (!next)
      break;
    result = {next->source, result.offsetBytes + next->offsetBytes, result.ownShard || next->ownShard};
  }
  return result;
}

bool isWireCast(Operation *op) {
  if (!isa<graph::CastOp>(op))
    return false;
  Value wide = op->getOperand(0);
  return dist::isFull(wide.getType()) ? bool(wide.getDefiningOp<dist::PackOp>()) : isSumCast(op);
}

bool isSumCast(Operation *op) {
  return isa<graph::CastOp>(op) && dist::isShard(op->getOperand(0).getType()) &&
         op->getOperand(0).getDefiningOp<graph::AccumulateOp>();
}

Operation *localGradientOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && isWireCast(op))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<dist::PackOp>(op) ? op : nullptr;
}

bool isLibraryCall(Operation *op) {
  return isWireCast(op) || isa<graph::MatmulOp, graph::AttentionOp, graph::AttentionGradOp, graph::LinearCrossEntropyOp,
                               graph::EmbeddingOp, graph::EmbeddingGradOp, graph::DequantizeOp>(op);
}

bool isCollectiveStart(Operation *op) {
  return isa<dist::AllGatherStartOp, dist::ReduceScatterStartOp, dist::AllReduceStartOp>(op);
}
bool isCollectiveDone(Operation *op) {
  return isa<dist::AllGatherDoneOp, dist::ReduceScatterDoneOp, dist::AllReduceDoneOp>(op);
}
bool isCollective(Operation *op) {
  return isa<dist::AllGatherOp, dist::ReduceScatterOp, dist::AllReduceOp>(op) || isCollectiveStart(op) ||
         isCollectiveDone(op);
}

bool isFree(Operation *op) {
  return isa<graph::ConstantOp, graph::AccumulateOp, dist::PackOp>(op) || op->hasTrait<OpTrait::IsTerminator>() ||
         aliasOf(op);
}

bool isComputed(Operation *op) {
  return !isFree(op) && !isLibraryCall(op) && !isCollective(op);
}

bool canAccumulate(Operation *op, unsigned index) {
  if (isa<graph::MatmulOp, graph::EmbeddingGradOp, graph::FusionOp>(op))
    return true;
  // The loss is added too: micro-steps of one step sum theirs.
  return isa<graph::LinearCrossEntropyOp>(op) && index != 1;
}

} // namespace ztc
