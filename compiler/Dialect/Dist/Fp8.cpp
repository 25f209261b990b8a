// Weights that ranks gather as fp8 codes: constraints and workspace.
#include "runtime/Core/Fp8.h"
#include "compiler/Dialect/Dist/Fp8.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace ztc::dist;

#define GET_OP_CLASSES
#include "compiler/Dialect/Dist/DistFp8.cpp.inc"

LogicalResult AllReduceMaxStartOp::verify() {
  // (C1)
  if (getPending().getType().getResult() != getX().getType())
    return emitOpError("(C1) types differ: ") << getX().getType() << ", " << getPending().getType().getResult();
  // (C4)
  if (!getPending().hasOneUse() || !isa<AllReduceMaxDoneOp>(*getPending().user_begin()))
    return emitOpError("(C4) needs one ") << AllReduceMaxDoneOp::getOperationName() << " and no other reader";
  return success();
}

LogicalResult AllReduceMaxDoneOp::verify() {
  if (!getPending().getDefiningOp<AllReduceMaxStartOp>())
    return emitOpError("(C1) operand must be the result of ") << AllReduceMaxStartOp::getOperationName();
  return success();
}

/// (C2) of both: `stride` numbers a range, the last two its first element and its end.
static LogicalResult verifyRanges(Operation *op, ArrayRef<int64_t> ranges, size_t stride) {
  if (ranges.empty() || ranges.size() % stride)
    return op->emitOpError("(C2) has ") << ranges.size() << " numbers of ranges, not " << int64_t(stride) << " of each";
  for (size_t i = stride - 2; i < ranges.size(); i += stride)
    if (ranges[i] < 0 || ranges[i] >= ranges[i + 1] || ranges[i] % int64_t(ztc::kFp8Tile) ||
        ranges[i + 1] % int64_t(ztc::kFp8Tile))
      return op->emitOpError("(C2) has the range ") << ranges[i] << " to " << ranges[i + 1];
  return success();
}

LogicalResult ShardAmaxOp::verify() {
  // (C1)
  for (Value shard : getShards())
    if (!isShard(shard.getType()) || getElementTypeOrSelf(shard) != getElementTypeOrSelf(getShards().front()))
      return emitOpError("(C1) reads ") << shard.getType() << ", not shards of one element type";
  if (failed(verifyRanges(*this, getRanges(), 3)))
    return failure();
  for (size_t i = 0; i < getRanges().size(); i += 3)
    if (getRanges()[i] < 0 || getRanges()[i] >= int64_t(getShards().size()))
      return emitOpError("(C2) has a range of operand ") << getRanges()[i] << " of " << int64_t(getShards().size());
  // (C3)
  if (cast<RankedTensorType>(getAmax().getType()).getDimSize(0) != int64_t(getRanges().size() / 3))
    return emitOpError("(C3) gives ") << getAmax().getType() << " of " << int64_t(getRanges().size() / 3) << " ranges";
  return success();
}

ztc::Workspace ShardAmaxOp::getWorkspace(const ztc::WorkspaceLimits &) {
  return {{{"partials", /*isPerThread=*/false, ztc::kFp8Partials * sizeof(float)}}};
}

LogicalResult ShardCodesOp::verify() {
  // (C1)
  if (!isShard(getShard().getType()) || !isShard(getCodes().getType()) ||
      bucketOf(getShard().getType()) != bucketOf(getCodes().getType()) ||
      !isa<Float8E4M3FNType>(getElementTypeOrSelf(getCodes())))
    return emitOpError("(C1) gives ") << getCodes().getType() << " of " << getShard().getType();
  if (failed(verifyRanges(*this, getRanges(), 2)))
    return failure();
  // (C3)
  const int64_t count = int64_t(getRanges().size() / 2),
                maxima = cast<RankedTensorType>(getAmax().getType()).getDimSize(0);
  if (int64_t(getScales().size()) != count || int64_t(getFirst()) < 0 || int64_t(getFirst()) + count > maxima)
    return emitOpError("(C3) gives ") << int64_t(getScales().size()) << " scales of " << count << " ranges, from "
                                      << int64_t(getFirst()) << " on of " << maxima << " maxima";
  for (Value scale : getScales())
    if (cast<RankedTensorType>(scale.getType()).getDimSize(0) != 2)
      return emitOpError("(C3) gives ") << scale.getType()
                                        << " as the inverse of a scale and the scale, not two elements";
  return success();
}

// The codes of a column of a tile, which stands for what a rank has none of.
ztc::Workspace ShardCodesOp::getWorkspace(const ztc::WorkspaceLimits &) {
  return {{{"codes", /*isPerThread=*/false, ztc::kFp8Tile}}};
}
