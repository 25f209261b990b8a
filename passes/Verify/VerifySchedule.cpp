#include "compiler/Analysis/BucketTable.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Fp8.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-schedule"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYSCHEDULE
#include "passes/Verify/Passes.h.inc"

namespace {

bool floats(Operation *op) {
  return isa<graph::ConstantOp>(op) || aliasOf(op);
}

/// (O2)
LogicalResult checkAlias(Operation *op) {
  Operation *next = op->getNextNode();
  while (next && floats(next))
    next = next->getNextNode();
  for (Operation *user : op->getUsers())
    if (user == next || user->isBeforeInBlock(next))
      return success();
  return op->emitOpError("O2: stands before an op that does not read it");
}

/// (O3)
LogicalResult checkSum(graph::AccumulateOp accumulate) {
  Value sum = accumulate.getAccumulator();
  while (auto link = resolveAlias(sum).source.getDefiningOp<graph::AccumulateOp>())
    sum = link.getAccumulator();
  Operation *first = resolveAlias(sum).source.getDefiningOp();
  Operation *second = resolveAlias(accumulate.getX()).source.getDefiningOp();
  if (first && second && !first->isBeforeInBlock(second))
    return accumulate.emitOpError("O3: the addend is computed before the sum");
  return success();
}

/// The last op of the block that reads a result of `op`, through aliases; `op` itself where nobody does.
Operation *lastReader(Operation *op) {
  Operation *last = op;
  SmallVector<Operation *> todo{op};
  while (!todo.empty())
    for (Operation *user : todo.pop_back_val()->getUsers()) {
      if (aliasOf(user))
        todo.push_back(user);
      else if (last->isBeforeInBlock(user))
        last = user;
    }
  return last;
}

/// The start of a gather that needs storage of its own: what it gathers lies elsewhere, as a shard, or is made for it.
dist::AllGatherStartOp gatherOfShard(Operation &op) {
  auto start = dyn_cast<dist::AllGatherStartOp>(op);
  if (start && !isa<BlockArgument>(start.getShard()) && !start.getShard().getDefiningOp<dist::ShardCodesOp>())
    return {};
  return start;
}

/// (O4)
LogicalResult checkOrder(func::FuncOp function) {
  std::optional<int64_t> last;
  for (Operation &op : function.getBody().front()) {
    if (isCollective(&op) && !isCollectiveStart(&op) && !isCollectiveDone(&op))
      return op.emitOpError("O4: is not split into start and done");
    if (!isCollectiveStart(&op))
      continue;
    auto order = op.getAttrOfType<IntegerAttr>("order");
    if (!order || (last && order.getInt() <= *last))
      return op.emitOpError("O4: its place in the launch order, ")
             << (order ? std::to_string(order.getInt()) : "none") << ", is not after "
             << (last ? std::to_string(*last) : "nothing");
    last = order.getInt();
  }
  return success();
}

/// (O5)
LogicalResult checkGathered(func::FuncOp function, int64_t prefetch, const BucketTable &buckets) {
  llvm::DenseMap<Operation *, SmallVector<int64_t>> dying;
  llvm::DenseMap<int64_t, unsigned> alive; // gathers by transformer block
  for (Operation &op : function.getBody().front()) {
    if (dist::AllGatherStartOp start = gatherOfShard(op)) {
      int64_t layer = buckets.layer(dist::bucketOf(start.getShard().getType()));
      if (layer >= 0) {
        ++alive[layer];
        dying[lastReader(*start.getPending().user_begin())].push_back(layer);
        if (int64_t(alive.size()) > prefetch + 1)
          return op.emitOpError("O5: ") << alive.size() << " blocks would have gathered parameters, " << prefetch
                                        << " may run ahead";
      }
    }
    for (int64_t layer : dying.lookup(&op))
      if (--alive[layer] == 0)
        alive.erase(layer);
  }
  return success();
}

/// (O6)
LogicalResult checkGathersAgain(func::FuncOp function) {
  llvm::DenseMap<Type, Operation *> latest; // by bucket: the done of the gather that was awaited last
  for (Operation &op : function.getBody().front()) {
    auto done = dyn_cast<dist::AllGatherDoneOp>(op);
    auto start = done ? done.getPending().getDefiningOp<dist::AllGatherStartOp>() : dist::AllGatherStartOp();
    if (!start || !gatherOfShard(*start))
      continue;
    Operation *&before = latest[done.getY().getType()];
    if (before && done->isBeforeInBlock(lastReader(before)))
      return before->emitOpError("O6: is read after the next gather of ") << dist::bucketOf(start.getShard().getType());
    before = done;
  }
  return success();
}

/// (O7)
LogicalResult checkReductions(func::FuncOp function, const BucketTable &buckets) {
  SmallVector<dist::ReduceScatterStartOp> running;
  const auto elementsOf = [&](dist::ReduceScatterStartOp start) { return buckets.elements(start.getFull().getType()); };
  for (Operation &op : function.getBody().front()) {
    if (auto start = dyn_cast<dist::ReduceScatterStartOp>(op)) {
      for (dist::ReduceScatterStartOp other : running)
        if (!isSmallBeside(elementsOf(start), elementsOf(other)))
          return op.emitOpError("O7: starts while another reduce_scatter is in flight");
      running.push_back(start);
    }
    if (auto done = dyn_cast<dist::ReduceScatterDoneOp>(op))
      llvm::erase(running, done.getPending().getDefiningOp<dist::ReduceScatterStartOp>());
  }
  return success();
}

struct VerifySchedule : impl::VerifyScheduleBase<VerifySchedule> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    const BucketTable buckets(getOperation());
    auto prefetch = getOperation()->getAttrOfType<IntegerAttr>(kPrefetch);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function.getBody().hasOneBlock()) {
        function.emitOpError("O1: has ") << function.getBody().getBlocks().size() << " blocks instead of one";
        return signalPassFailure();
      }
      for (Operation &op : function.getBody().front()) {
        auto accumulate = dyn_cast<graph::AccumulateOp>(op);
        if ((floats(&op) && !op.use_empty() && failed(checkAlias(&op))) || (accumulate && failed(checkSum(accumulate))))
          return signalPassFailure();
      }
      if (failed(checkOrder(function)) || (prefetch && failed(checkGathered(function, prefetch.getInt(), buckets))) ||
          failed(checkGathersAgain(function)) || failed(checkReductions(function, buckets)))
        return signalPassFailure();
    }
  }
};
} // namespace
} // namespace ztc
