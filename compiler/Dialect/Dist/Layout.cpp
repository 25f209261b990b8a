// Layouts of flat buckets on the mesh, and the constraints of what changes them.
#include "compiler/Dialect/Dist/Dist.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace ztc::dist;

template <typename Layout> static RankedTensorType flatType(StringRef bucket, Type elementType) {
  auto symbol = FlatSymbolRefAttr::get(elementType.getContext(), bucket);
  return RankedTensorType::get({ShapedType::kDynamic}, elementType, Layout::get(elementType.getContext(), symbol));
}
RankedTensorType ztc::dist::fullType(StringRef bucket, Type elementType) {
  return flatType<FullAttr>(bucket, elementType);
}
RankedTensorType ztc::dist::shardType(StringRef bucket, Type elementType) {
  return flatType<ShardAttr>(bucket, elementType);
}

template <typename Layout> static Layout layoutOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_if_present<Layout>(tensor.getEncoding()) : Layout();
}
bool ztc::dist::isFull(Type type) {
  return bool(layoutOf<FullAttr>(type));
}
bool ztc::dist::isShard(Type type) {
  return bool(layoutOf<ShardAttr>(type));
}
FlatSymbolRefAttr ztc::dist::bucketOf(Type type) {
  if (auto full = layoutOf<FullAttr>(type))
    return full.getBucket();
  auto shard = layoutOf<ShardAttr>(type);
  return shard ? shard.getBucket() : FlatSymbolRefAttr();
}

/// (C1) of both layouts.
static LogicalResult verifyFlat(ArrayRef<int64_t> shape, function_ref<InFlightDiagnostic()> emitError) {
  if (shape.size() == 1 && ShapedType::isDynamic(shape.front()))
    return success();
  return emitError() << "(C1) a layout of dist stands on a tensor that is not 1-D of open length";
}
LogicalResult ShardAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                        function_ref<InFlightDiagnostic()> emitError) const {
  return verifyFlat(shape, emitError);
}
LogicalResult FullAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  return verifyFlat(shape, emitError);
}

/// (C1) to (C3) of every op that turns one layout of a bucket into the other.
static LogicalResult verifyLayouts(Operation *op, Type full, Type shard) {
  if (!isFull(full) || !isShard(shard))
    return op->emitOpError("(C1) turns between a whole bucket and its shard, not between ") << full << " and " << shard;
  if (bucketOf(full) != bucketOf(shard))
    return op->emitOpError("(C2) the buckets differ: ") << bucketOf(full) << ", " << bucketOf(shard);
  if (getElementTypeOrSelf(full) != getElementTypeOrSelf(shard))
    return op->emitOpError("(C3) element types differ: ")
           << getElementTypeOrSelf(full) << ", " << getElementTypeOrSelf(shard);
  return success();
}

std::optional<ztc::Alias> ViewOp::getAlias() {
  return ztc::Alias{getBucket(), int64_t(getOffset()) * ztc::elementBytes(getY().getType())};
}
std::optional<ztc::Alias> OwnShardOp::getAlias() {
  return ztc::Alias{getFull(), 0, /*ownShard=*/true};
}

std::optional<ztc::Alias> OwnMatrixOp::getAlias() {
  return ztc::Alias{getX(), 0};
}

LogicalResult OwnMatrixOp::verify() {
  // (C1)
  auto bucket = SymbolTable::lookupNearestSymbolFrom<BucketOp>(*this, getBucketAttr());
  if (bucket && llvm::none_of(bucket.getParameters(), [&](Attribute entry) {
        return readBucketParameter(entry).name.getValue() == getParameter();
      }))
    return emitOpError("(C1) bucket ") << getBucketAttr() << " has no parameter '" << getParameter() << "'";
  return success();
}

LogicalResult OwnShardOp::verify() {
  return verifyLayouts(*this, getFull().getType(), getShard().getType());
}
LogicalResult AllGatherOp::verify() {
  return verifyLayouts(*this, getY().getType(), getShard().getType());
}
LogicalResult ReduceScatterOp::verify() {
  return verifyLayouts(*this, getFull().getType(), getY().getType());
}

/// (C4) of a start.
template <typename Done, typename Start> static LogicalResult verifyOneDone(Start start) {
  if (start.getPending().hasOneUse() && isa<Done>(*start.getPending().user_begin()))
    return success();
  return start.emitOpError("(C4) needs one ") << Done::getOperationName() << " and no other reader";
}
LogicalResult AllGatherStartOp::verify() {
  if (failed(verifyLayouts(*this, getPending().getType().getResult(), getShard().getType())))
    return failure();
  return verifyOneDone<AllGatherDoneOp>(*this);
}
LogicalResult ReduceScatterStartOp::verify() {
  if (failed(verifyLayouts(*this, getFull().getType(), getPending().getType().getResult())))
    return failure();
  return verifyOneDone<ReduceScatterDoneOp>(*this);
}
LogicalResult AllReduceStartOp::verify() {
  if (getPending().getType().getResult() != getX().getType())
    return emitOpError("(C1) types differ: ") << getX().getType() << ", " << getPending().getType().getResult();
  return verifyOneDone<AllReduceDoneOp>(*this);
}

/// (C1) of a done.
template <typename Start, typename Done> static LogicalResult verifyStarted(Done done) {
  if (done.getPending().template getDefiningOp<Start>())
    return success();
  return done.emitOpError("(C1) operand must be the result of ") << Start::getOperationName();
}
LogicalResult AllGatherDoneOp::verify() {
  return verifyStarted<AllGatherStartOp>(*this);
}
LogicalResult ReduceScatterDoneOp::verify() {
  return verifyStarted<ReduceScatterStartOp>(*this);
}
LogicalResult AllReduceDoneOp::verify() {
  return verifyStarted<AllReduceStartOp>(*this);
}
