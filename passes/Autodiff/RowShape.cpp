#include "passes/Autodiff/RowShape.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace ztc {

bool anyRows(const RowShape &rows) {
  return llvm::any_of(rows, [](const RowCount &count) { return count.rows() > 1; });
}
SmallVector<int64_t> shrunk(ArrayRef<int64_t> shape, const RowShape &rows) {
  SmallVector<int64_t> result(shape);
  for (auto [size, count] : llvm::zip_equal(result, rows))
    size /= count.rows();
  return result;
}
// Both shapes are cut into the shortest runs of dimensions with equal products.
std::optional<RowShape> reshapedRows(ArrayRef<int64_t> from, const RowShape &rows, ArrayRef<int64_t> to) {
  RowShape result(to.size());
  for (size_t i = 0, j = 0; i < from.size() || j < to.size();) {
    const size_t beginI = i, beginJ = j;
    int64_t left = i < from.size() ? from[i++] : 1, right = j < to.size() ? to[j++] : 1;
    while (left != right) {
      if (left < right ? i == from.size() : j == to.size())
        return std::nullopt;
      left < right ? left *= from[i++] : right *= to[j++];
    }
    // Rows are the outermost part of the run: before and between them nothing has a size.
    RowCount all;
    bool ended = false;
    for (size_t k = beginI; k < i; ++k) {
      if (from[k] == 1)
        continue;
      if (rows[k].rows() > 1 && (ended || (rows[k].sequences > 1 && all.positions > 1)))
        return std::nullopt;
      all.sequences *= rows[k].sequences;
      all.positions *= rows[k].positions;
      ended = rows[k].rows() != from[k];
    }
    for (size_t k = beginJ; k < j && all.rows() > 1; ++k) {
      auto take = [](int64_t &size, int64_t &available, int64_t &taken) {
        taken = size % available == 0 ? available : available % size == 0 ? size : 0;
        if (taken == 0)
          return false;
        size /= taken;
        available /= taken;
        return true;
      };
      int64_t size = to[k];
      if (!take(size, all.sequences, result[k].sequences) ||
          (all.sequences == 1 && !take(size, all.positions, result[k].positions)))
        return std::nullopt;
    }
  }
  return result;
}

void markWideAs(Operation &op, Operation *before, Value twin) {
  if (!op.hasAttr(graph::kWide))
    return;
  llvm::SmallPtrSet<Operation *, 8> made;
  for (Operation *own = op.getPrevNode(); own != before; own = own->getPrevNode())
    made.insert(own);
  for (Operation *own = twin.getDefiningOp(); own && made.contains(own); own = own->getOperand(0).getDefiningOp()) {
    own->setAttr(graph::kWide, UnitAttr::get(op.getContext()));
    if (!isa<graph::ReshapeOp, graph::TransposeOp, graph::BroadcastOp>(own))
      break;
  }
}

} // namespace ztc
