#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/UpdateTime.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Positions.h"
#include "llvm/ADT/DenseSet.h"

#define DEBUG_TYPE "ztc-place-updates"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_PLACEUPDATES
#include "passes/Schedule/Passes.h.inc"

namespace {

/// The later of two ops of a block; null stands before all.
Operation *later(Operation *a, Operation *b) {
  return !a ? b : !b || b->isBeforeInBlock(a) ? a : b;
}

class UpdatePlacer {
public:
  explicit UpdatePlacer(func::FuncOp function) : function(function), block(function.getBody().front()) {}

  void run() {
    SmallVector<dist::ReduceScatterDoneOp> reductions(block.getOps<dist::ReduceScatterDoneOp>());
    for (auto [index, reduction] : llvm::enumerate(reductions))
      lastReduction[reduction] = int(index);
    findDependents();
    for (auto [index, reduction] : llvm::enumerate(reductions))
      place(reduction, int(index),
            index + 1 < reductions.size() ? reductions[index + 1].getPending().getDefiningOp() : nullptr);
    // What has been gathered is read in the next step.
    for (auto done : SmallVector<dist::AllGatherDoneOp>(block.getOps<dist::AllGatherDoneOp>()))
      if (Operation *reader = firstUser(done); reader && reader->hasTrait<OpTrait::IsTerminator>())
        moveBefore(done, reader);
    SmallVector<Operation *> floating;
    for (Operation &op : block)
      if (floats(&op))
        floating.push_back(&op);
    llvm::for_each(llvm::reverse(floating), sink);
  }

private:
  /// The last of the reductions that each op is made of, by its number.
  void findDependents() {
    for (Operation &op : block.without_terminator()) {
      if (lastReduction.contains(&op))
        continue;
      int last = -1;
      for (Value operand : op.getOperands())
        if (Operation *definition = operand.getDefiningOp())
          if (auto found = lastReduction.find(definition); found != lastReduction.end())
            last = std::max(last, found->second);
      if (last >= 0)
        lastReduction[&op] = last;
    }
  }

  /// The last op before the update of a bucket that reads what is stored of its parameters.
  Operation *lastReader(FlatSymbolRefAttr bucket) {
    Operation *last = nullptr;
    for (unsigned index : graph::argumentsWithRole(function, graph::Role::ParameterBucket)) {
      auto name = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
      if (name != bucket)
        continue;
      SmallVector<Value> todo{function.getArgument(index)};
      while (!todo.empty())
        for (Operation *user : todo.pop_back_val().getUsers()) {
          if (lastReduction.contains(user) || user->hasTrait<OpTrait::IsTerminator>())
            continue; // the update itself
          const bool isAlias = aliasOf(user).has_value();
          last = isAlias ? last : later(last, user);
          // At one rank a gathered bucket lies where its shard does.
          if (isAlias || isa<dist::AllGatherStartOp, dist::AllGatherDoneOp>(user))
            todo.append(user->result_begin(), user->result_end());
        }
    }
    return last;
  }

  /// Moves `op` after `position`, and before it what it needs and stands later; returns the op to go on after.
  Operation *moveBehind(Operation *op, Operation *position) {
    if (!placed.insert(op).second)
      return position;
    for (Value operand : op->getOperands())
      if (Operation *definition = operand.getDefiningOp(); definition && position->isBeforeInBlock(definition))
        position = moveBehind(definition, position);
    // A gather writes around the shard that it reads: whoever reads that shard comes before.
    if (auto gather = dyn_cast<dist::AllGatherStartOp>(op))
      for (Operation *reader : gather.getShard().getUsers())
        if (reader != op && lastReduction.contains(reader) && !isa<dist::AllGatherStartOp>(reader))
          position = moveBehind(reader, position);
    moveAfter(op, position);
    return op;
  }

  void place(dist::ReduceScatterDoneOp reduction, int index, Operation *nextStart) {
    SmallVector<Operation *> update;
    for (Operation &op : block)
      if (auto found = lastReduction.find(&op);
          found != lastReduction.end() && found->second == index && &op != reduction)
        update.push_back(&op);
    Operation *start = reduction.getPending().getDefiningOp();
    Operation *position = later(start, lastReader(dist::bucketOf(reduction.getType())));
    // One reduction is on its way: where parameters are read that long, the update alone waits.
    if (!nextStart || position->isBeforeInBlock(nextStart)) {
      moveAfter(reduction, position);
      position = reduction;
    }
    for (Operation *op : update)
      position = moveBehind(op, position);
  }

  func::FuncOp function;
  Block &block;
  llvm::DenseMap<Operation *, int> lastReduction;
  llvm::DenseSet<Operation *> placed; ///< where they stay
};

struct PlaceUpdates : impl::PlaceUpdatesBase<PlaceUpdates> {
  void runOnOperation() override {
    func::FuncOp microstep = graph::findEntry(getOperation(), graph::Entry::Microstep);
    if (!graph::updatesInBackward(getOperation()) || !microstep)
      return markAllAnalysesPreserved();
    UpdatePlacer(microstep).run();
  }
};
} // namespace
} // namespace ztc
