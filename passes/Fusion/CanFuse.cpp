#include "passes/Fusion/CanFuse.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;

namespace ztc {

bool isUngrouped(Operation *op) {
  return !isa<graph::FusionOp>(op) && isComputed(op);
}

bool movesRows(Operation *op) {
  auto transpose = dyn_cast_or_null<graph::TransposeOp>(op);
  return transpose && !transpose.getPermutation().empty() &&
         transpose.getPermutation().back() == int64_t(transpose.getPermutation().size()) - 1;
}

/// Whether `op` reads each element of its operands at most once.
static bool readsOnce(Operation *op) {
  return op->hasTrait<OpTrait::Elementwise>() || movesRows(op) ||
         isa<graph::ReduceSumOp, graph::ReduceMaxOp, graph::SliceOp, graph::ReshapeOp>(op);
}

/// The size of the last dimension of what `op` computes; 0: it has no dimension.
static int64_t columnsOf(Operation *op) {
  auto shape = cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  return shape.empty() ? 0 : shape.back();
}

/// A reduction of rows to one number each.
static bool reducesRows(Operation *op) {
  ArrayRef<int64_t> axes;
  if (auto sum = dyn_cast<graph::ReduceSumOp>(op))
    axes = sum.getAxes();
  else if (auto max = dyn_cast<graph::ReduceMaxOp>(op))
    axes = max.getAxes();
  return axes.size() == 1 && axes[0] == cast<RankedTensorType>(op->getResult(0).getType()).getRank() - 1;
}

/// Whether `op` reads a number of each row for all of the row.
static bool readsRowNumbers(Operation *op) {
  auto broadcast = dyn_cast<graph::BroadcastOp>(op);
  if (!broadcast)
    return false;
  ArrayRef<int64_t> from = cast<RankedTensorType>(broadcast.getX().getType()).getShape(),
                    to = cast<RankedTensorType>(broadcast.getType()).getShape();
  return from.size() == to.size() && !to.empty() && from.back() == 1 && from.drop_back() == to.drop_back();
}

bool canFuse(Operation *producer, function_ref<bool(Operation *)> isInside) {
  if (!producer || !isUngrouped(producer))
    return false;
  // What there is once in a row is computed once in a row, whatever it takes.
  const bool perRow = columnsOf(producer) == 1, reduces = reducesRows(producer);
  const bool perElement = producer->hasTrait<OpTrait::Elementwise>() || movesRows(producer) || reduces ||
                          isa<graph::BroadcastOp, graph::IotaOp, graph::SliceOp>(producer);
  return perElement && llvm::all_of(producer->getUsers(), [&](Operation *reader) {
           return reader->getBlock() == producer->getBlock() && isInside(reader) &&
                  ((readsOnce(reader) && (!reduces || columnsOf(reader) == 1)) || (perRow && readsRowNumbers(reader)));
         });
}

bool isWidening(Operation *op) {
  auto cast = dyn_cast_or_null<graph::CastOp>(op);
  if (!cast)
    return false;
  Type from = getElementTypeOrSelf(cast.getX().getType()), to = getElementTypeOrSelf(cast.getY().getType());
  return isa<FloatType>(from) && isa<FloatType>(to) && from != to && graph::isAsWide(to, from);
}

} // namespace ztc
