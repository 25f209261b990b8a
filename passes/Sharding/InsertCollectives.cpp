#include "compiler/Analysis/BucketTable.h"
#include "compiler/Analysis/Stages.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/BlockOrder.h"
#include "compiler/Support/Moves.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "passes/Sharding/GatherRuns.h"
#include "passes/Sharding/Passes.h"
#include "llvm/Support/FormatVariadic.h"

#define DEBUG_TYPE "ztc-insert-collectives"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_INSERTCOLLECTIVES
#include "passes/Sharding/Passes.h.inc"

namespace {

/// Moves `op` right after the last of its operands.
void moveToOperands(Operation *op, BlockOrder &order) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *definition = operand.getDefiningOp(); definition && (!last || order.isBefore(last, definition)))
      last = definition;
  if (last)
    order.moveAfter(op, last);
  else
    order.moveBefore(op, &op->getBlock()->front());
}

/// A pack, and the sums that its parts are, stand where they are complete.
void hoistPack(dist::PackOp pack, BlockOrder &order) {
  for (Value part : pack.getParts()) {
    SmallVector<Operation *> sums;
    while (auto sum = part.getDefiningOp<graph::AccumulateOp>()) {
      sums.push_back(sum);
      part = sum.getAccumulator();
    }
    auto slot = part.getDefiningOp<dist::ViewOp>();
    bool movesSlot = slot && !sums.empty() && isa<BlockArgument>(slot.getBucket());
    if (movesSlot)
      moveToOperands(slot, order);
    for (Operation *sum : llvm::reverse(sums))
      moveToOperands(sum, order);
    if (movesSlot)
      order.moveBefore(slot, sums.back());
  }
  moveToOperands(pack, order);
}

/// The own shard of each local gradient becomes that of the sum over ranks.
void reduceGradients(func::FuncOp function, bool onlyLast) {
  SmallVector<dist::OwnShardOp> owns;
  for (auto own : function.getBody().front().getOps<dist::OwnShardOp>())
    if (localGradientOf(own.getFull()))
      owns.push_back(own);
  BlockOrder order(function.getBody().front());
  for (dist::OwnShardOp own : owns) {
    hoistPack(cast<dist::PackOp>(localGradientOf(own.getFull())), order);
    Operation *local = own.getFull().getDefiningOp();
    moveToOperands(local, order);
    OpBuilder builder(own.getContext());
    builder.setInsertionPointAfter(local);
    Value sum = dist::ReduceScatterOp::create(builder, own.getLoc(), own.getShard().getType(), own.getFull(),
                                              dist::kDataAxis, onlyLast);
    SmallVector<Operation *> readers(own->getUsers());
    own.getShard().replaceAllUsesWith(sum);
    order.forget(own);
    own.erase();
    for (unsigned i = 0; i < readers.size(); ++i) {
      if (!isa<graph::CastOp, graph::AccumulateOp>(readers[i]))
        continue;
      readers.append(readers[i]->user_begin(), readers[i]->user_end());
      moveToOperands(readers[i], order);
    }
  }
}

/// What the ranks have of a sum becomes that of all.
void reduceSum(Value sum) {
  OpBuilder builder(sum.getContext());
  builder.setInsertionPointAfterValue(sum);
  Value total = dist::AllReduceOp::create(builder, sum.getLoc(), sum.getType(), sum, dist::kDataAxis);
  sum.replaceAllUsesExcept(total, total.getDefiningOp());
}

/// Each rank has summed the squares of its own shards; the norm is that of all. Where buckets are updated one by one,
/// each has a norm of its own.
void reduceNorm(func::FuncOp function) {
  auto squares = function.getBody().front().getOps<graph::SumSquaresOp>();
  if (squares.empty())
    return;
  if (graph::updatesInBackward(function->getParentOfType<ModuleOp>())) {
    for (graph::SumSquaresOp one : llvm::make_early_inc_range(squares))
      reduceSum(one.getY());
    return;
  }
  Value sum = (*squares.begin()).getY();
  while (sum.hasOneUse())
    if (auto add = dyn_cast<graph::AddOp>(*sum.user_begin()))
      sum = add.getY();
    else
      break;
  reduceSum(sum);
}

/// The parameter of a bucket that begins at `offset`.
StringAttr parameterAt(dist::BucketOp bucket, int64_t offset) {
  for (Attribute entry : bucket.getParameters())
    if (dist::BucketParameter parameter = dist::readBucketParameter(entry); parameter.offset == offset)
      return parameter.name;
  return {};
}

/// Each direction of Muon is made orthogonal by one rank, and what the ranks have is added: one term of each sum is not
/// zero, so it is exact.
void ownMatrices(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  for (auto pack : llvm::make_early_inc_range(function.getBody().front().getOps<dist::PackOp>())) {
    FlatSymbolRefAttr name = dist::bucketOf(pack.getBucket().getType());
    auto bucket = name ? module.lookupSymbol<dist::BucketOp>(name.getAttr()) : dist::BucketOp();
    if (!bucket)
      continue;
    for (auto [part, offset] : llvm::zip_equal(pack.getParts(), pack.getOffsets())) {
      auto orthogonal = part.getDefiningOp<graph::OrthogonalizeOp>();
      StringAttr parameter = orthogonal ? parameterAt(bucket, offset) : StringAttr();
      if (!parameter)
        continue;
      OpBuilder builder(orthogonal);
      Value own = dist::OwnMatrixOp::create(builder, orthogonal.getLoc(), orthogonal.getType(), orthogonal.getX(),
                                            parameter, name);
      orthogonal.getXMutable().assign(own);
    }
    OpBuilder builder(pack.getContext());
    builder.setInsertionPointAfter(pack);
    Type full = pack.getBucket().getType();
    Value sum = dist::ReduceScatterOp::create(builder, pack.getLoc(),
                                              dist::shardType(name.getValue(), getElementTypeOrSelf(full)),
                                              pack.getBucket(), dist::kDataAxis, /*only_last=*/false);
    Value whole; // at stage 0 whole buckets are updated
    for (OpOperand &use : llvm::make_early_inc_range(pack.getBucket().getUses())) {
      if (use.getOwner() == sum.getDefiningOp())
        continue;
      if (auto own = dyn_cast<dist::OwnShardOp>(use.getOwner())) {
        own.getShard().replaceAllUsesWith(sum);
        own.erase();
        continue;
      }
      if (!whole)
        whole = dist::AllGatherOp::create(builder, pack.getLoc(), full, sum, dist::kDataAxis);
      use.set(whole);
    }
  }
}

/// A copy of the aliases that lead from a gather to `value`, standing on the gather `to`.
Value cloneAliases(OpBuilder &builder, Value value, Value to, IRMapping &mapping) {
  if (Value known = mapping.lookupOrNull(value))
    return known;
  Operation *alias = value.getDefiningOp();
  if (isa<dist::AllGatherOp>(alias))
    return to;
  Value source = cloneAliases(builder, alias->getOperand(0), to, mapping);
  Operation *clone = builder.clone(*alias);
  clone->setOperand(0, source);
  mapping.map(value, clone->getResult(0));
  return clone->getResult(0);
}

void eraseAliases(Value value) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    eraseAliases(user->getResult(0));
    user->erase();
  }
}

/// A broadcast of a parameter stands before each op that takes it in, as fusion would have it, and so does a cast, with
/// the shape that it gets in between: of one that forward and backward share, the backward's part would read the
/// forward's gather. `isComputed`: `gathered` is the result of such an op, not the parameter.
void copyBroadcasts(Value gathered, bool isComputed = false) {
  for (Operation *user : llvm::make_early_inc_range(gathered.getUsers())) {
    const bool isCopied = isa<graph::BroadcastOp, graph::CastOp>(user);
    if (!isCopied && !aliasOf(user))
      continue;
    copyBroadcasts(user->getResult(0), isComputed || isCopied);
    if (!isCopied && !isComputed)
      continue;
    for (OpOperand &use : llvm::make_early_inc_range(user->getUses())) {
      Operation *reader = use.getOwner();
      if (!reader->hasTrait<OpTrait::Elementwise>() && !isa<graph::BroadcastOp>(reader) && !aliasOf(reader))
        continue;
      if (user->hasOneUse())
        moveBefore(user, reader);
      else
        use.set(OpBuilder(reader).clone(*user)->getResult(0));
    }
  }
}

/// One gather at the function's start becomes one before each run of uses.
void placeGathers(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  SmallVector<GatheredBucket> buckets;
  for (auto gather : function.getBody().front().getOps<dist::AllGatherOp>())
    if (isa<BlockArgument>(gather.getShard())) {
      auto bucket = module.lookupSymbol<dist::BucketOp>(dist::bucketOf(gather.getType()).getAttr());
      buckets.push_back({gather, int64_t(bucket.getElements()), layerOf(bucket)});
      copyBroadcasts(gather.getY());
    }
  Value result = function.getBody().front().getTerminator()->getOperand(0);
  std::vector<GatherRun> runs = findGatherRuns(buckets, resolveAlias(result).source.getDefiningOp());
  SmallVector<unsigned> count(buckets.size());
  for (const GatherRun &run : runs) {
    dist::AllGatherOp gather = buckets[run.bucket].gather;
    OpBuilder builder(run.uses.front()->getOwner());
    Operation *copy = builder.clone(*gather);
    IRMapping mapping;
    for (OpOperand *use : run.uses)
      use->set(cloneAliases(builder, use->get(), copy->getResult(0), mapping));
    ++count[run.bucket];
  }
  for (auto [index, bucket] : llvm::enumerate(buckets)) {
    remark::passed(bucket.gather.getLoc(),
                   remark::RemarkOpts::name("gathers").category(DEBUG_TYPE).function(function.getName()))
        << llvm::formatv("bucket {0} is gathered {1} time{2} in @{3}",
                         dist::bucketOf(bucket.gather.getType()).getValue(), count[index], count[index] == 1 ? "" : "s",
                         function.getName())
               .str();
    eraseAliases(bucket.gather.getY());
    bucket.gather.erase();
  }
}

struct InsertCollectives : impl::InsertCollectivesBase<InsertCollectives> {
  void runOnOperation() override {
    auto stage = getOperation()->getAttrOfType<IntegerAttr>(dist::kZero);
    if (!stage) {
      getOperation().emitError("has no ") << dist::kZero << ": no stage was chosen";
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (graph::isEntry(function, graph::Entry::Update)) {
        reduceNorm(function);
        ownMatrices(function);
        continue;
      }
      reduceGradients(function, dist::reducesOnlyLast(stage.getInt(), getOperation()));
      placeGathers(function);
    }
  }
};
} // namespace
} // namespace ztc
