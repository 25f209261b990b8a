#include "compiler/Analysis/BucketTable.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Fp8.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Schedule/Passes.h"
#include "passes/Schedule/Positions.h"
#include "llvm/ADT/SetVector.h"

#define DEBUG_TYPE "ztc-overlap-collectives"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVES
#include "passes/Schedule/Passes.h.inc"

namespace {

/// A collective taken apart.
struct Split {
  Operation *start, *done;
};

/// Writes start and done where the collective stood.
Split split(Operation *op) {
  OpBuilder builder(op);
  Type pending = dist::PendingType::get(op->getContext(), cast<RankedTensorType>(op->getResult(0).getType()));
  Location loc = op->getLoc();
  Split result;
  if (auto gather = dyn_cast<dist::AllGatherOp>(op)) {
    result.start = dist::AllGatherStartOp::create(builder, loc, pending, gather.getShard(), gather.getAxisAttr(),
                                                  /*order=*/IntegerAttr());
    result.done = dist::AllGatherDoneOp::create(builder, loc, gather.getY().getType(), result.start->getResult(0));
  } else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    result.start = dist::ReduceScatterStartOp::create(builder, loc, pending, scatter.getFull(), scatter.getAxisAttr(),
                                                      /*order=*/IntegerAttr(), scatter.getOnlyLastAttr());
    result.done = dist::ReduceScatterDoneOp::create(builder, loc, scatter.getY().getType(), result.start->getResult(0));
  } else if (auto maxima = dyn_cast<dist::AllReduceMaxOp>(op)) {
    result.start = dist::AllReduceMaxStartOp::create(builder, loc, pending, maxima.getX(), maxima.getAxisAttr(),
                                                     /*order=*/IntegerAttr());
    result.done = dist::AllReduceMaxDoneOp::create(builder, loc, maxima.getY().getType(), result.start->getResult(0));
  } else {
    auto reduce = cast<dist::AllReduceOp>(op);
    result.start = dist::AllReduceStartOp::create(builder, loc, pending, reduce.getX(), reduce.getAxisAttr(),
                                                  /*order=*/IntegerAttr());
    result.done = dist::AllReduceDoneOp::create(builder, loc, reduce.getY().getType(), result.start->getResult(0));
  }
  op->getResult(0).replaceAllUsesWith(result.done->getResult(0));
  op->erase();
  return result;
}

/// Moves `op` before `position` and the aliases and constants that stand there for the same reader.
void moveBeforeReader(Operation *op, Operation *position) {
  while (Operation *previous = position->getPrevNode()) {
    if (previous == op || !floats(previous))
      break;
    position = previous;
  }
  if (position->getPrevNode() != op)
    moveBefore(op, position);
}

/// The op that reads the own shard of an argument does so through an alias, or its codes: what makes these moves along.
void moveStartBefore(Operation *start, Operation *position) {
  moveBefore(start, position);
  if (Operation *source = start->getOperand(0).getDefiningOp();
      source && (aliasOf(source) || isa<dist::ShardCodesOp>(source)))
    moveBefore(source, start);
}

/// Whether `gather` gathers what a function takes, as it is or as codes.
bool isOfArgument(dist::AllGatherOp gather) {
  Value source = resolveAlias(gather.getShard()).source;
  return isa<BlockArgument>(source) || isa<dist::ShardCodesOp>(source.getDefiningOp());
}

class Overlapper {
public:
  Overlapper(Block &block, const BucketTable &buckets, unsigned prefetch)
      : block(block), buckets(buckets), prefetch(prefetch) {}

  void run() {
    for (auto reduce : llvm::make_early_inc_range(block.getOps<dist::AllReduceOp>()))
      split(reduce);
    for (auto reduce : llvm::make_early_inc_range(block.getOps<dist::AllReduceMaxOp>()))
      split(reduce);
    overlapGathers();
    overlapReductions();
  }

private:
  void overlapGathers() {
    SmallVector<Operation *> ofArguments, ofValues;
    for (auto gather : block.getOps<dist::AllGatherOp>())
      if (firstUser(gather))
        (isOfArgument(gather) ? ofArguments : ofValues).push_back(gather);
    llvm::stable_sort(ofArguments,
                      [](Operation *a, Operation *b) { return firstUser(a)->isBeforeInBlock(firstUser(b)); });
    SmallVector<Split> gathers;
    for (Operation *gather : ofArguments) {
      gathers.push_back(split(gather));
      moveBeforeReader(gathers.back().done, firstUser(gathers.back().done));
    }
    for (unsigned index = 0; index < gathers.size(); ++index)
      moveStartBefore(gathers[index].start, gathers[placesBefore(gathers, index)].done);
    for (Operation *gather : ofValues) {
      Split parts = split(gather);
      hoist(parts.start);
      moveBeforeReader(parts.done, firstUser(parts.done));
    }
  }

  /// The gather at whose first use that of `index` starts: `prefetch` places before it, where buckets outside of blocks
  /// that are small beside it do not count, and those of one block count as one. A block counts however small: of
  /// DeepSeek-V3 a dense one is a twentieth of one with experts, and memory is that of `prefetch` + 1 of any.
  unsigned placesBefore(ArrayRef<Split> gathers, unsigned index) const {
    unsigned place = index;
    int64_t block = layerOf(gathers[index]);
    for (unsigned passed = 0, next = index; next && prefetch;) {
      const Split &before = gathers[--next];
      const bool isOfSameBlock = block >= 0 && layerOf(before) == block;
      if (layerOf(before) < 0 && isSmallBeside(elementsOf(before), elementsOf(gathers[index])))
        continue;
      if (!isOfSameBlock && passed++ == prefetch)
        break;
      block = layerOf(before);
      place = next;
    }
    return place;
  }

  int64_t layerOf(const Split &gather) const {
    return buckets.layer(dist::bucketOf(gather.done->getResult(0).getType()));
  }
  int64_t elementsOf(const Split &collective) const {
    return buckets.elements(collective.done->getResult(0).getType());
  }

  /// A gradient is complete after its last part.
  static void hoistPack(dist::PackOp pack) {
    SmallVector<Operation *> aliases;
    collectAliases(pack, aliases);
    for (Operation *alias : llvm::reverse(aliases))
      hoist(alias);
    hoist(pack);
    for (Operation *alias : aliases)
      sink(alias);
  }

  /// The aliases that only lead to `op`, the nearest first.
  static void collectAliases(Operation *op, SmallVectorImpl<Operation *> &aliases) {
    for (Value operand : op->getOperands())
      if (Operation *definition = operand.getDefiningOp(); definition && aliasOf(definition) && operand.hasOneUse()) {
        aliases.push_back(definition);
        collectAliases(definition, aliases);
      }
  }

  static bool hasOperandsBefore(Operation *op, Operation *position) {
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      Operation *definition = operand.getDefiningOp();
      return !definition || definition->isBeforeInBlock(position);
    });
  }

  /// Everything that is made of `done`, in order, without the return.
  static SmallVector<Operation *> followers(Operation *done) {
    llvm::SetVector<Operation *> ops;
    ops.insert(done);
    for (unsigned i = 0; i < ops.size(); ++i)
      for (Operation *user : ops[i]->getUsers())
        if (!user->hasTrait<OpTrait::IsTerminator>())
          ops.insert(user);
    SmallVector<Operation *> sorted(ops.begin(), ops.end());
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    return sorted;
  }

  void overlapReductions() {
    SmallVector<Operation *> scatters;
    for (auto scatter : block.getOps<dist::ReduceScatterOp>()) {
      if (Operation *pack = localGradientOf(scatter.getFull())) {
        hoistPack(cast<dist::PackOp>(pack));
        if (Operation *local = scatter.getFull().getDefiningOp(); local != pack)
          hoist(local);
      }
      scatters.push_back(scatter);
    }
    llvm::stable_sort(scatters, [](Operation *a, Operation *b) {
      Operation *first = lastOperand(a), *second = lastOperand(b);
      return first && second ? first->isBeforeInBlock(second) : !first && second;
    });
    SmallVector<Split> reductions;
    for (Operation *scatter : scatters) {
      reductions.push_back(split(scatter));
      hoist(reductions.back().start);
    }
    for (auto [index, reduction] : llvm::enumerate(reductions)) {
      const auto *follower = llvm::find_if(ArrayRef(reductions).drop_front(index + 1), [&](const Split &other) {
        return !isSmallBeside(elementsOf(other), elementsOf(reduction));
      });
      Operation *next = follower == reductions.end() ? block.getTerminator() : follower->start;
      for (Operation *op : followers(reduction.done))
        if (hasOperandsBefore(op, next)) // a sum over buckets waits for the last of them
          moveBefore(op, next);
    }
  }

  Block &block;
  const BucketTable &buckets;
  unsigned prefetch;
};

struct OverlapCollectives : impl::OverlapCollectivesBase<OverlapCollectives> {
  using OverlapCollectivesBase::OverlapCollectivesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const BucketTable buckets(module);
    bool any = false;
    for (auto function : module.getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      any |= llvm::any_of(block, isCollectiveOp);
      Overlapper(block, buckets, prefetch).run();
    }
    if (any)
      module->setAttr(kPrefetch, Builder(&getContext()).getI64IntegerAttr(prefetch));
  }

  static bool isCollectiveOp(Operation &op) { return isCollective(&op); }
};
} // namespace
} // namespace ztc
