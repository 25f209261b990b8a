#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Fusion/CanFuse.h"
#include "passes/Fusion/Passes.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "ztc-duplicate-cheap"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_DUPLICATECHEAP
#include "passes/Fusion/Passes.h.inc"

namespace {

/// How much smaller what is small is than the value, together; and of how many elementwise ops the value may be made.
constexpr int64_t kTimesSmaller = 8;
constexpr unsigned kMostOps = 12;

bool isElementwise(Operation *op) {
  return op && op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1;
}

/// What has elements of its operand in other places, where a kernel of rows finds them as fast.
bool isMove(Operation *op) {
  return isa_and_nonnull<graph::BroadcastOp, graph::ReshapeOp>(op) || movesRows(op);
}

/// An elementwise op that is a few instructions.
bool isShort(Operation *op) {
  return isa<graph::AddOp, graph::SubOp, graph::MulOp, graph::NegOp, graph::SelectOp, graph::CompareOp>(op);
}

bool isConstant(Value value) {
  return isa_and_nonnull<graph::ConstantOp>(value.getDefiningOp());
}

/// Adds the ops that read `value`, as it is or reshaped.
void collectReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers())
    if (auto reshape = dyn_cast<graph::ReshapeOp>(user))
      collectReaders(reshape, readers);
    else
      readers.push_back(user);
}

/// Whether `value` is in memory whatever kernels are formed: no kernel computes what it repeats.
bool isStored(Value value) {
  SmallVector<Operation *> readers;
  collectReaders(value, readers);
  Operation *producer = value.getDefiningOp();
  return !producer || isLibraryCall(producer) ||
         llvm::any_of(readers, [](Operation *op) { return isLibraryCall(op) || isa<graph::BroadcastOp>(op); });
}

/// Whether `value` is of a gathered parameter, which is there for its layer alone.
bool isGathered(Value value) {
  Operation *source = resolveAlias(value).source.getDefiningOp();
  return source && isCollective(source);
}

/// The ops of a value, and what they read.
struct Expression {
  llvm::SetVector<Operation *> ops; ///< the value's first; none: they are too many, or read too much
  Value large;                      ///< of what they read all but this is small; null: all of it is

  static Expression of(Operation *root);
};

Expression Expression::of(Operation *root) {
  const int64_t bytes = tensorBytes(root->getResult(0).getType());
  Expression result;
  llvm::SetVector<Value> small;
  result.ops.insert(root);
  int64_t smallBytes = 0;
  unsigned count = 0;
  for (unsigned i = 0; i < result.ops.size(); ++i) {
    count += isElementwise(result.ops[i]);
    for (Value operand : result.ops[i]->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      const int64_t size = tensorBytes(operand.getType());
      if (isConstant(operand))
        continue;
      if (isGathered(operand))
        return {};
      if (isa_and_nonnull<graph::IotaOp>(producer) && !isa<graph::BroadcastOp>(result.ops[i])) {
        result.ops.insert(producer);
      } else if (size <= bytes / kTimesSmaller) {
        if (small.insert(operand))
          smallBytes += size;
      } else if (!isStored(operand) && (isElementwise(producer) || isMove(producer))) {
        result.ops.insert(producer);
      } else if ((result.large && result.large != operand) || size > bytes) {
        return {};
      } else {
        result.large = operand;
      }
    }
    if (count > kMostOps || smallBytes > bytes / kTimesSmaller)
      return {};
  }
  return result;
}

/// Adds `op` and the elementwise ops that one kernel will hold with it: they hand what they compute to each other
/// alone.
void collectChain(Operation *op, llvm::SetVector<Operation *> &chain) {
  if (!isElementwise(op) || !chain.insert(op))
    return;
  for (Value operand : op->getOperands())
    if (operand.hasOneUse() && operand.getDefiningOp())
      collectChain(operand.getDefiningOp(), chain);
  if (op->hasOneUse())
    collectChain(*op->user_begin(), chain);
}

/// Readers of one op, in one chain.
struct Reader {
  llvm::SetVector<Operation *> chain;
  SmallVector<OpOperand *> uses;
  Operation *first, *last; ///< of those that read

  /// Whether the chain reads `value` otherwise than by `op`.
  bool reads(Value value, Operation *op) const {
    return llvm::any_of(chain,
                        [&](Operation *each) { return each != op && llvm::is_contained(each->getOperands(), value); });
  }
};

SmallVector<Reader> readersOf(Operation *op) {
  SmallVector<Reader> readers;
  for (OpOperand &use : op->getUses()) {
    Operation *owner = use.getOwner();
    auto known = llvm::find_if(readers, [&](const Reader &reader) { return reader.chain.contains(owner); });
    if (known == readers.end()) {
      readers.push_back({{}, {}, owner, owner});
      collectChain(owner, readers.back().chain);
      known = std::prev(readers.end());
    }
    known->uses.push_back(&use);
    if (owner->isBeforeInBlock(known->first))
      known->first = owner;
    if (known->last->isBeforeInBlock(owner))
      known->last = owner;
  }
  return readers;
}

/// Whether the kernels may read `x` in place of `op`'s value, which is made of it: each of them reads it in any case;
/// or it is stored in any case, and there for as long as the value or for nothing else, and the ops are short.
bool isReadInstead(Value x, Operation *op, const Expression &expression, ArrayRef<Reader> readers) {
  if (llvm::all_of(readers, [&](const Reader &reader) { return reader.reads(x, op); }))
    return true;
  if (!isStored(x) ||
      !llvm::all_of(expression.ops, [](Operation *each) { return !isElementwise(each) || isShort(each); }))
    return false;
  SmallVector<Operation *> others;
  collectReaders(x, others);
  llvm::erase_if(others, [&](Operation *other) { return expression.ops.contains(other); });
  return others.empty() || llvm::any_of(others, [&](Operation *other) {
           return llvm::none_of(readers, [&](const Reader &reader) { return other->isBeforeInBlock(reader.last); });
         });
}

void duplicate(Operation *op) {
  const SmallVector<Reader> readers = readersOf(op);
  if (readers.size() < 2)
    return;
  const Expression expression = Expression::of(op);
  if (llvm::all_of(expression.ops, [](Operation *each) { return isa<graph::ReshapeOp>(each); }) ||
      (expression.large && !isReadInstead(expression.large, op, expression, readers)))
    return;
  SmallVector<Operation *> inOrder(expression.ops.begin(), expression.ops.end());
  llvm::sort(inOrder, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (const Reader &reader : readers) {
    OpBuilder builder(reader.first);
    IRMapping copies;
    for (Operation *each : inOrder)
      builder.clone(*each, copies);
    for (OpOperand *use : reader.uses)
      use->set(copies.lookup(op->getResult(0)));
  }
}

void duplicate(Block &block) {
  // From the end: what is made of several ops is written again as a whole, and not its inner values before.
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::reverse(block)) {
    if ((!isElementwise(&op) && !isMove(&op)) || !llvm::all_of(op.getUsers(), isElementwise))
      continue;
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    if (type.hasStaticShape() && type.getRank() > 0)
      ops.push_back(&op);
  }
  for (Operation *op : ops)
    duplicate(op);
}

struct DuplicateCheap : impl::DuplicateCheapBase<DuplicateCheap> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      duplicate(block);
      eraseDeadOps(block);
    }
  }
};
} // namespace
} // namespace ztc
