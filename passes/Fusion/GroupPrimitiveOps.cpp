#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "mlir/IR/Remarks.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Fusion/CanFuse.h"
#include "passes/Fusion/Group.h"
#include "passes/Fusion/Passes.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "ztc-group-primitive-ops"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_GROUPPRIMITIVEOPS
#include "passes/Fusion/Passes.h.inc"

namespace {

bool isPointwise(Operation *op) {
  return op->hasTrait<OpTrait::Elementwise>();
}
bool isScalar(Operation *op) {
  auto type = op->getNumResults() == 1 ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
  return type && type.getRank() == 0;
}

/// Sorts ops of one block into their order in it.
SmallVector<Operation *> inOrder(const llvm::SetVector<Operation *> &ops) {
  SmallVector<Operation *> sorted(ops.begin(), ops.end());
  llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

/// A readable name: what the last op is, and how many stand before it.
std::string groupName(ArrayRef<Operation *> ops) {
  std::string name;
  for (Operation *op : ops) {
    if (isa<graph::ConstantOp, graph::ReshapeOp>(op))
      continue;
    if (!name.empty())
      name += "_";
    name += op->getName().stripDialect();
    if (name.size() > 24)
      break;
  }
  return name;
}

/// Scalars as one group, where no one outside reads one of them before the last is computed.
void groupScalars(const llvm::SetVector<Operation *> &scalars) {
  if (scalars.size() < 2)
    return;
  Operation *last = inOrder(scalars).back();
  for (Operation *op : scalars)
    for (Operation *user : op->getUsers())
      if (!scalars.contains(user) && user->isBeforeInBlock(last))
        return;
  groupOps(inOrder(scalars), "scalars", graph::FusionKind::Scalars);
}

/// The scalars before and after each collective: the sum of squares goes through one before it becomes the norm.
void groupScalars(Block &block) {
  SmallVector<llvm::SetVector<Operation *>> stretches(1);
  for (Operation &op : block)
    if (isCollective(&op))
      stretches.emplace_back();
    else if (isUngrouped(&op) && isPointwise(&op) && isScalar(&op))
      stretches.back().insert(&op);
  for (const auto &stretch : stretches)
    groupScalars(stretch);
}

/// Adds the widening that `operand` is, through reshapes, where nothing else reads it.
void addWidening(Value operand, llvm::SetVector<Operation *> &group) {
  SmallVector<Operation *> chain;
  for (Value value = operand; value.hasOneUse(); value = chain.back()->getOperand(0)) {
    Operation *op = value.getDefiningOp();
    if (!op || (!isa<graph::ReshapeOp>(op) && !isWidening(op)) || op->getBlock() != group.front()->getBlock())
      return;
    chain.push_back(op);
    if (isWidening(op)) {
      if (isUngrouped(op))
        group.insert(chain.begin(), chain.end());
      return;
    }
  }
}

/// Adds the producer that `operand` is, through reshapes, where it can stand in the group.
void addProducer(Value operand, llvm::SetVector<Operation *> &group) {
  SmallVector<Operation *> reshapes;
  for (auto reshape = operand.getDefiningOp<graph::ReshapeOp>(); reshape && operand.hasOneUse();
       reshape = operand.getDefiningOp<graph::ReshapeOp>()) {
    reshapes.push_back(reshape);
    operand = reshape.getX();
  }
  Operation *producer = operand.getDefiningOp();
  if (producer && producer->getBlock() == group.front()->getBlock() && canFuse(producer, [&](Operation *reader) {
        return group.contains(reader) || llvm::is_contained(reshapes, reader);
      })) {
    group.insert(reshapes.begin(), reshapes.end());
    group.insert(producer);
  }
}

/// An op that reads each element once, with the producers that nothing else reads; any op with the widenings that it
/// reads.
void groupChain(Operation *root) {
  llvm::SetVector<Operation *> group;
  group.insert(root);
  for (unsigned i = 0; i < group.size(); ++i)
    for (Value operand : group[i]->getOperands())
      addProducer(operand, group);
  const unsigned count = group.size();
  for (unsigned i = 0; i < count; ++i)
    for (Value operand : group[i]->getOperands())
      addWidening(operand, group);
  SmallVector<Operation *> ops = inOrder(group);
  groupOps(ops, groupName(ops), count > 1 ? graph::FusionKind::Chain : graph::FusionKind::Single);
}

/// The result that `value` is, through reshapes that nobody else reads; null where another reader sees it on the way.
OpResult soleResult(Value value) {
  while (value.hasOneUse()) {
    auto reshape = value.getDefiningOp<graph::ReshapeOp>();
    if (!reshape)
      return dyn_cast<OpResult>(value);
    value = reshape.getX();
  }
  return {};
}

/// Whether `accumulate`'s addend can be added in the accumulator's storage by the op that computes it: that op exists,
/// runs after what computes the accumulator, and nobody reads the accumulator from then on.
bool addsInPlace(graph::AccumulateOp accumulate) {
  OpResult addend = soleResult(accumulate.getX());
  if (!addend || !canAccumulate(addend.getOwner(), addend.getResultNumber()))
    return false;
  Alias origin = resolveAlias(accumulate.getAccumulator());
  auto sum = origin.source.getDefiningOp<graph::AccumulateOp>();
  if (isa<BlockArgument>(origin.source) || isa_and_nonnull<graph::ConstantOp>(origin.source.getDefiningOp()))
    return false;
  if (!origin.source.getDefiningOp()->isBeforeInBlock(addend.getOwner()) && !sum)
    return false;
  SmallVector<Value> todo{origin.source};
  while (!todo.empty())
    for (Operation *user : todo.pop_back_val().getUsers()) {
      if (aliasOf(user))
        todo.append(user->result_begin(), user->result_end());
      else if (user != accumulate && !user->isBeforeInBlock(addend.getOwner()))
        return false;
    }
  // A link of a chain: its own addend is computed before this one.
  return !sum || resolveAlias(sum.getX()).source.getDefiningOp()->isBeforeInBlock(addend.getOwner());
}

/// Whether the sum stands in an argument: a gradient bucket.
bool isInBucket(graph::AccumulateOp accumulate) {
  Value bottom = accumulate.getAccumulator();
  while (auto link = bottom.getDefiningOp<graph::AccumulateOp>())
    bottom = link.getAccumulator();
  return isa<BlockArgument>(resolveAlias(bottom).source);
}

/// A sum of activations' cotangents stays an accumulate where its addend can be added in place; else it is an ordinary
/// add.
void resolveAccumulate(graph::AccumulateOp accumulate) {
  if (isInBucket(accumulate) || addsInPlace(accumulate))
    return;
  OpBuilder builder(accumulate);
  auto add = graph::AddOp::create(builder, accumulate.getLoc(), accumulate.getType(), accumulate.getAccumulator(),
                                  accumulate.getX());
  accumulate.replaceAllUsesWith(add.getOperation());
  accumulate.erase();
}

/// A group that hands on its operand.
Value copyOf(OpBuilder &builder, Location loc, Value value, StringRef name, graph::FusionKind kind) {
  auto fusion = graph::FusionOp::create(builder, loc, value.getType(), value, name, kind);
  Block &body = fusion.getBody().empty() ? fusion.getBody().emplaceBlock() : fusion.getBody().front();
  body.clear();
  body.addArgument(value.getType(), value.getLoc());
  builder.setInsertionPointToEnd(&body);
  graph::YieldOp::create(builder, loc, ValueRange(body.getArguments()));
  return fusion.getResult(0);
}

/// What is added into a bucket comes from one kernel that nobody else reads; anything else is copied there.
void copyAddend(graph::AccumulateOp accumulate) {
  OpResult result = soleResult(accumulate.getX());
  if (!isInBucket(accumulate) || (result && canAccumulate(result.getOwner(), result.getResultNumber())))
    return;
  Value addend = accumulate.getX();
  OpBuilder builder(accumulate);
  if (isa_and_nonnull<dist::ReduceScatterOp>(addend.getDefiningOp())) {
    accumulate.getXMutable().assign(
        copyOf(builder, accumulate.getLoc(), addend, "accumulate", graph::FusionKind::ShardSum));
    return;
  }
  accumulate.getXMutable().assign(copyOf(builder, accumulate.getLoc(), addend, "copy", graph::FusionKind::AddendCopy));
  remark::missed(accumulate.getLoc(), remark::RemarkOpts::name("copy").category(DEBUG_TYPE))
      << "the addend of a sum is copied: it has another reader";
}

/// What is reduced in place, the parts of a local gradient, must be read by nobody else.
void copyParts(dist::PackOp pack) {
  if (llvm::none_of(pack->getUsers(),
                    [](Operation *user) { return isa<dist::ReduceScatterOp>(user) || isWireCast(user); }))
    return;
  for (OpOperand &part : pack.getPartsMutable()) {
    auto sum = part.get().getDefiningOp<graph::AccumulateOp>();
    if (sum ? part.get().hasOneUse() : bool(soleResult(part.get())))
      continue;
    OpBuilder builder(pack);
    part.set(copyOf(builder, part.get().getLoc(), part.get(), "copy", graph::FusionKind::PartCopy));
    remark::missed(pack.getLoc(), remark::RemarkOpts::name("copy").category(DEBUG_TYPE))
        << "a gradient is copied before it is reduced: it has another reader";
  }
}

struct GroupPrimitiveOps : impl::GroupPrimitiveOpsBase<GroupPrimitiveOps> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      for (auto accumulate : llvm::make_early_inc_range(block.getOps<graph::AccumulateOp>()))
        resolveAccumulate(accumulate);
      groupScalars(block);
      // From the end: a consumer takes in its producers before they can become groups of their own.
      for (Operation *op = &block.back(); op;) {
        Operation *previous = op->getPrevNode();
        if (isUngrouped(op)) {
          // Producers that join disappear: go on from what then stands before the new group.
          Operation *next = op->getNextNode();
          groupChain(op);
          previous = next->getPrevNode()->getPrevNode();
        }
        op = previous;
      }
      for (auto accumulate : llvm::make_early_inc_range(block.getOps<graph::AccumulateOp>()))
        copyAddend(accumulate);
      for (auto pack : block.getOps<dist::PackOp>())
        copyParts(pack);
      eraseDeadOps(block);
    }
  }
};
} // namespace
} // namespace ztc
