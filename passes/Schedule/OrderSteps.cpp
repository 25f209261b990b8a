#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Schedule/Passes.h"

#define DEBUG_TYPE "ztc-order-steps"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_ORDERSTEPS
#include "passes/Schedule/Passes.h.inc"

namespace {

/// An alias or a constant: where it stands costs nothing.
bool floats(Operation *op) {
  return isa<graph::ConstantOp>(op) || aliasOf(op);
}

/// The last op of the block that defines an operand of `op`; null where all are arguments.
Operation *lastOperand(Operation *op) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *definition = operand.getDefiningOp(); definition && (!last || last->isBeforeInBlock(definition)))
      last = definition;
  return last;
}

/// Moves `op` right behind its operands, where that is earlier.
void hoist(Operation *op) {
  Operation *last = lastOperand(op);
  if (last)
    op->moveAfter(last);
  else if (op != &op->getBlock()->front())
    op->moveBefore(&op->getBlock()->front());
}

/// Moves `op` right before the first op that reads it.
void sink(Operation *op) {
  Operation *first = nullptr;
  for (Operation *user : op->getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  if (first)
    op->moveBefore(first);
}

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

template <typename Range> SmallVector<Operation *> collect(Range &&ops, function_ref<bool(Operation *)> keep) {
  SmallVector<Operation *> result;
  for (Operation &op : ops)
    if (keep(&op))
      result.push_back(&op);
  return result;
}

void orderBlock(Block &block) {
  for (Operation *op : collect(block, floats))
    hoist(op);
  SmallVector<Operation *> accumulates = collect(block, [](Operation *op) { return isa<graph::AccumulateOp>(op); });
  for (Operation *op : accumulates)
    if (Operation *producer = soleProducer(cast<graph::AccumulateOp>(op).getX());
        isa_and_nonnull<graph::MatmulOp>(producer) && isInBucket(op))
      hoist(producer);
  for (Operation *op : collect(block, floats))
    hoist(op);
  for (Operation *op : accumulates)
    hoist(op);
  SmallVector<Operation *> aliases = collect(block, floats);
  for (Operation *op : llvm::reverse(aliases))
    sink(op);
}

struct OrderSteps : impl::OrderStepsBase<OrderSteps> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      orderBlock(function.getBody().front());
  }
};
} // namespace
} // namespace ztc
