#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {

std::optional<Alias> aliasOf(Operation *op) {
  auto alias = dyn_cast<StorageAliasOpInterface>(op);
  return alias ? alias.getAlias() : std::nullopt;
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
  return isWireCast(op) || isa<LibraryCallOpInterface>(op);
}

bool isCollectiveStart(Operation *op) {
  return op->hasTrait<dist::CollectiveStart>();
}
bool isCollectiveDone(Operation *op) {
  return op->hasTrait<dist::CollectiveDone>();
}
bool isCollective(Operation *op) {
  return op->hasTrait<dist::WholeCollective>() || isCollectiveStart(op) || isCollectiveDone(op);
}

bool isFree(Operation *op) {
  return isa<graph::ConstantOp, graph::AccumulateOp, dist::PackOp>(op) || op->hasTrait<OpTrait::IsTerminator>() ||
         aliasOf(op);
}

bool isComputed(Operation *op) {
  return !isFree(op) && !isLibraryCall(op) && !isCollective(op);
}

bool canAccumulate(Operation *op, unsigned index) {
  auto call = dyn_cast<LibraryCallOpInterface>(op);
  return call ? call.canAccumulate(index) : isa<graph::FusionOp>(op);
}

} // namespace ztc
