#include "compiler/Analysis/StepKinds.h"
#include "passes/Fusion/Group.h"
#include "passes/Fusion/Passes.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "ztc-group-primitive-ops"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_GROUPPRIMITIVEOPS
#include "passes/Fusion/Passes.h.inc"

namespace {

bool isPointwise(Operation *op) { return op->hasTrait<OpTrait::Elementwise>(); }
bool isScalar(Operation *op) {
  auto type = op->getNumResults() == 1 ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
  return type && type.getRank() == 0;
}
bool computes(Operation *op) { return !isa<graph::FusionOp>(op) && !isFree(op) && !isLibraryCall(op); }
ArrayRef<int64_t> shapeOf(Operation *op) { return cast<RankedTensorType>(op->getResult(0).getType()).getShape(); }

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
    if (isa<graph::ConstantOp>(op))
      continue;
    if (!name.empty())
      name += "_";
    name += op->getName().stripDialect();
    if (name.size() > 24)
      break;
  }
  return name;
}

/// The scalars of a block as one group, where no one outside reads one of them before the last is computed.
void groupScalars(Block &block) {
  llvm::SetVector<Operation *> scalars;
  for (Operation &op : block)
    if (computes(&op) && isPointwise(&op) && isScalar(&op))
      scalars.insert(&op);
  if (scalars.size() < 2)
    return;
  Operation *last = inOrder(scalars).back();
  for (Operation *op : scalars)
    for (Operation *user : op->getUsers())
      if (!scalars.contains(user) && user->isBeforeInBlock(last))
        return;
  groupOps(inOrder(scalars), "scalars", "scalars of one function, one kernel");
}

/// Whether `producer` can stand in the group of `root`: nobody outside reads it, and it is computed element by element.
bool joins(Operation *producer, Operation *root, const llvm::SetVector<Operation *> &group) {
  if (!producer || producer->getBlock() != root->getBlock() || !computes(producer) || group.contains(producer))
    return false;
  bool perElement = isPointwise(producer) || isa<graph::BroadcastOp, graph::IotaOp>(producer);
  return perElement && shapeOf(producer) == shapeOf(root) &&
         llvm::all_of(producer->getUsers(), [&](Operation *user) { return group.contains(user); });
}

/// A pointwise op with the producers that nothing else reads.
void groupChain(Operation *root) {
  llvm::SetVector<Operation *> group;
  group.insert(root);
  if (isPointwise(root))
    for (unsigned i = 0; i < group.size(); ++i)
      for (Value operand : group[i]->getOperands())
        if (joins(operand.getDefiningOp(), root, group))
          group.insert(operand.getDefiningOp());
  SmallVector<Operation *> ops = inOrder(group);
  groupOps(ops, groupName(ops), ops.size() > 1 ? "pointwise chain of one shape" : "");
}

/// An accumulate adds what one kernel can add in place and nobody else reads; anything else is copied into the sum.
void groupAddend(graph::AccumulateOp accumulate) {
  Value addend = accumulate.getX();
  Value origin = addend;
  bool shared = false;
  while (true) {
    shared |= !origin.hasOneUse();
    auto reshape = origin.getDefiningOp<graph::ReshapeOp>();
    if (!reshape)
      break;
    origin = reshape.getX();
  }
  auto result = dyn_cast<OpResult>(origin);
  if (!shared && result && canAccumulate(result.getOwner(), result.getResultNumber()))
    return;
  OpBuilder builder(accumulate);
  auto fusion = graph::FusionOp::create(builder, accumulate.getLoc(), addend.getType(), addend, builder.getStringAttr("copy"),
                                        builder.getStringAttr("the addend of a sum has another reader"));
  Block &body = fusion.getBody().empty() ? fusion.getBody().emplaceBlock() : fusion.getBody().front();
  body.clear();
  body.addArgument(addend.getType(), addend.getLoc());
  builder.setInsertionPointToEnd(&body);
  graph::YieldOp::create(builder, accumulate.getLoc(), ValueRange(body.getArguments()));
  accumulate.getXMutable().assign(fusion.getResult(0));
  remark::missed(accumulate.getLoc(), remark::RemarkOpts::name("copy").category(DEBUG_TYPE)) << "the addend of a sum is copied: it has another reader";
}

struct GroupPrimitiveOps : impl::GroupPrimitiveOpsBase<GroupPrimitiveOps> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      groupScalars(block);
      // From the end: a consumer takes in its producers before they can become groups of their own.
      for (Operation *op = &block.back(); op;) {
        Operation *previous = op->getPrevNode();
        if (computes(op)) {
          // Producers that join disappear: go on from what then stands before the new group.
          Operation *next = op->getNextNode();
          groupChain(op);
          previous = next->getPrevNode()->getPrevNode();
        }
        op = previous;
      }
      for (auto accumulate : llvm::make_early_inc_range(block.getOps<graph::AccumulateOp>()))
        groupAddend(accumulate);
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block.without_terminator())))
        if (isOpTriviallyDead(&op))
          op.erase();
    }
  }
};
} // namespace
} // namespace ztc
