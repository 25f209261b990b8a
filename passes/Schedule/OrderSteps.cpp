#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Positions.h"

#define DEBUG_TYPE "ztc-order-steps"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_ORDERSTEPS
#include "passes/Schedule/Passes.h.inc"

namespace {

/// The op that computes the addend, through the aliases that only lead there; null where it is none's alone.
Operation *soleProducer(Value addend) {
  while (addend.hasOneUse() && addend.getDefiningOp()) {
    Operation *op = addend.getDefiningOp();
    std::optional<Alias> alias = aliasOf(op);
    if (!alias)
      return op;
    addend = alias->source;
  }
  return nullptr;
}

/// Whether the sum stands in an argument (a gradient bucket): its addends may come in any order.
bool isInBucket(Operation *op) {
  Value bottom = op->getResult(0);
  while (auto link = bottom.getDefiningOp<graph::AccumulateOp>())
    bottom = link.getAccumulator();
  return isa<BlockArgument>(resolveAlias(bottom).source);
}

/// A product that is only (a part of) a gradient runs as soon as it can: activations die early.
void hoistProduct(Value gradient, BlockOrder &order) {
  if (Operation *producer = soleProducer(gradient); graph::isProduct(producer))
    hoistBy(order, producer);
}

template <typename Range> SmallVector<Operation *> collect(Range &&ops, function_ref<bool(Operation *)> keep) {
  SmallVector<Operation *> result;
  for (Operation &op : ops)
    if (keep(&op))
      result.push_back(&op);
  return result;
}

void orderBlock(Block &block) {
  BlockOrder order(block);
  for (Operation *op : collect(block, floats))
    hoistBy(order, op);
  SmallVector<Operation *> accumulates = collect(block, [](Operation *op) { return isa<graph::AccumulateOp>(op); });
  for (Operation *op : accumulates)
    if (isInBucket(op))
      hoistProduct(cast<graph::AccumulateOp>(op).getX(), order);
  for (auto pack : block.getOps<dist::PackOp>())
    for (Value part : pack.getParts())
      hoistProduct(part, order);
  for (Operation *op : collect(block, floats))
    hoistBy(order, op);
  for (Operation *op : accumulates)
    hoistBy(order, op);
  SmallVector<Operation *> aliases = collect(block, floats);
  for (Operation *op : llvm::reverse(aliases))
    sinkBy(order, op);
}

struct OrderSteps : impl::OrderStepsBase<OrderSteps> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      orderBlock(function.getBody().front());
  }
};
} // namespace
} // namespace ztc
