#include "passes/Fusion/CanFuse.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {

bool isUngrouped(Operation *op) {
  return !isa<graph::FusionOp>(op) && isComputed(op);
}

bool canFuse(Operation *producer, Operation *root, function_ref<bool(Operation *)> isInside) {
  if (!producer || producer->getBlock() != root->getBlock() || !isUngrouped(producer))
    return false;
  auto shapeOf = [](Operation *op) { return cast<RankedTensorType>(op->getResult(0).getType()).getShape(); };
  bool perElement =
      producer->hasTrait<OpTrait::Elementwise>() || isa<graph::BroadcastOp, graph::IotaOp, graph::SliceOp>(producer);
  return perElement && shapeOf(producer) == shapeOf(root) && llvm::all_of(producer->getUsers(), isInside);
}

bool isWidening(Operation *op) {
  auto cast = dyn_cast_or_null<graph::CastOp>(op);
  if (!cast)
    return false;
  Type from = getElementTypeOrSelf(cast.getX().getType()), to = getElementTypeOrSelf(cast.getY().getType());
  return isa<FloatType>(from) && isa<FloatType>(to) && from != to && graph::isAsWide(to, from);
}

} // namespace ztc
