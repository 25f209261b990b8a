#include "passes/Precision/ProductSums.h"
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Dialect/Graph/Roles.h"

using namespace mlir;

namespace ztc {

Operation *endOfForward(func::FuncOp function) {
  return graph::isEntry(function, graph::Entry::Microstep) ? lossOpOf(function) : nullptr;
}

unsigned fuseSums(func::FuncOp function, Operation *end, llvm::function_ref<bool(graph::AddOp, unsigned)> fuse) {
  unsigned count = 0;
  for (auto sum : llvm::make_early_inc_range(function.getBody().front().getOps<graph::AddOp>()))
    if ((!end || sum->isBeforeInBlock(end)) && (fuse(sum, 0) || fuse(sum, 1)))
      ++count;
  return count;
}

Operation *onlyReadSource(Value value) {
  while (value.hasOneUse()) {
    auto reshape = value.getDefiningOp<graph::ReshapeOp>();
    if (!reshape)
      return value.getDefiningOp();
    value = reshape.getX();
  }
  return nullptr;
}

void replaceSum(graph::AddOp sum, unsigned index, Operation *product, Value result) {
  Value read = sum->getOperand(index);
  sum.replaceAllUsesWith(result);
  sum.erase();
  while (auto reshape = read.getDefiningOp<graph::ReshapeOp>()) {
    read = reshape.getX();
    reshape.erase();
  }
  product->erase();
}

} // namespace ztc
