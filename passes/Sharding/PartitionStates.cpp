#include "compiler/Analysis/Stages.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Sharding/Passes.h"

#define DEBUG_TYPE "ztc-partition-states"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_PARTITIONSTATES
#include "passes/Sharding/Passes.h.inc"

namespace {

/// The other layout of a bucket's value.
RankedTensorType asShard(Type full) {
  return dist::shardType(dist::bucketOf(full).getValue(), getElementTypeOrSelf(full));
}
RankedTensorType asFull(Type shard) {
  return dist::fullType(dist::bucketOf(shard).getValue(), getElementTypeOrSelf(shard));
}

RankedTensorType ofType(Type flat, Type elementType) {
  auto tensor = cast<RankedTensorType>(flat);
  return RankedTensorType::get(tensor.getShape(), elementType, tensor.getEncoding());
}

/// `value` in this element type: a cast where it has another one.
Value converted(OpBuilder &builder, Value value, Type elementType) {
  if (getElementTypeOrSelf(value.getType()) == elementType)
    return value;
  return graph::CastOp::create(builder, value.getLoc(), ofType(value.getType(), elementType), value);
}

Value ownShard(OpBuilder &builder, Value full) {
  return dist::OwnShardOp::create(builder, full.getLoc(), asShard(full.getType()), full);
}
Value allGather(OpBuilder &builder, Location loc, Value shard) {
  return dist::AllGatherOp::create(builder, loc, asFull(shard.getType()), shard, dist::kDataAxis);
}

/// A sum's link that adds into the argument `slots`: its addend is what this micro-step contributes.
bool addsInto(graph::AccumulateOp link, Value slots) {
  auto view = link.getAccumulator().getDefiningOp<dist::ViewOp>();
  return view && view.getBucket() == slots;
}

/// The parts of `pack` lose the gradient bucket that they were added into.
void dropAccumulators(dist::PackOp pack, Value slots) {
  for (OpOperand &part : pack.getPartsMutable()) {
    OpOperand *use = &part;
    while (auto link = use->get().getDefiningOp<graph::AccumulateOp>()) {
      if (addsInto(link, slots)) {
        Operation *view = link.getAccumulator().getDefiningOp();
        use->set(link.getX());
        link.erase();
        view->erase();
        break;
      }
      use = &link.getAccumulatorMutable();
    }
  }
}

class StatePartitioner {
public:
  StatePartitioner(func::FuncOp function, unsigned stage)
      : function(function), stage(stage), terminator(function.getBody().front().getTerminator()),
        builder(function.getContext()) {}

  LogicalResult run() {
    for (BlockArgument argument : function.getArguments()) {
      const std::optional<graph::Role> role = graph::roleOf(function, argument.getArgNumber());
      if (!graph::isBucket(role) || !dist::isShardedAt(stage, function, *role))
        continue;
      if (!dist::isFull(argument.getType()))
        return function.emitOpError("argument ") << argument.getArgNumber() << " (" << graph::stringifyRole(*role)
                                                 << ") is not a whole bucket: " << argument.getType();
      argument.setType(asShard(argument.getType()));
    }
    LogicalResult done = success();
    if (graph::isEntry(function, graph::Entry::Microstep))
      done = partitionGradients();
    if (graph::isEntry(function, graph::Entry::Update))
      done = partitionUpdate();
    else if (stage == 3)
      gatherParameters();
    function.setFunctionType(
        builder.getFunctionType(ValueRange(function.getArguments()).getTypes(), terminator->getOperandTypes()));
    return done;
  }

private:
  void gatherParameters();
  LogicalResult partitionGradients();
  LogicalResult partitionUpdate();
  LogicalResult partitionDirection(graph::MomentumDirectionOp op);

  func::FuncOp function;
  unsigned stage;
  Operation *terminator;
  OpBuilder builder;
};

/// Views stand on whole buckets.
void StatePartitioner::gatherParameters() {
  builder.setInsertionPointToStart(&function.getBody().front());
  for (unsigned index : graph::argumentsWithRole(function, graph::Role::ParameterBucket)) {
    BlockArgument argument = function.getArgument(index);
    if (argument.use_empty())
      continue;
    StringAttr name = dist::bucketOf(argument.getType()).getAttr();
    Value full = allGather(builder, NameLoc::get(name), argument);
    argument.replaceAllUsesExcept(full, full.getDefiningOp());
  }
}

LogicalResult StatePartitioner::partitionGradients() {
  llvm::StringMap<Type> wireTypes;
  for (unsigned index : graph::argumentsWithRole(function, graph::Role::ParameterBucket))
    if (auto bucket = dist::bucketOf(function.getArgumentTypes()[index]))
      wireTypes[bucket.getValue()] = getElementTypeOrSelf(function.getArgumentTypes()[index]);
  llvm::StringMap<BlockArgument> accumulators;
  for (unsigned index : graph::argumentsWithRole(function, graph::Role::GradientBucket))
    if (auto bucket = dist::bucketOf(function.getArgumentTypes()[index]))
      accumulators[bucket.getValue()] = function.getArgument(index);
  SmallVector<DictionaryAttr> attributes;
  function.getAllResultAttrs(attributes);
  SmallVector<Value> results(terminator->getOperands()), reduced;
  SmallVector<DictionaryAttr> reducedAttributes;
  auto returnReduced = [&](FlatSymbolRefAttr bucket, Value shard) {
    reduced.push_back(shard);
    reducedAttributes.push_back(
        builder.getDictionaryAttr({graph::namedResult(builder.getContext(), graph::ResultKind::ReducedGradient),
                                   builder.getNamedAttr(graph::kBucket, bucket)}));
  };
  builder.setInsertionPoint(terminator);
  for (unsigned index = 0; index < function.getNumResults(); ++index) {
    auto pack = results[index].getDefiningOp<dist::PackOp>();
    if (graph::resultOf(function, index) != graph::ResultKind::Gradient)
      continue;
    if (!pack || !dist::isFull(pack.getType()))
      return function.emitOpError("result ") << index << " is a gradient, but not a dist.pack of a whole bucket";
    FlatSymbolRefAttr bucket = dist::bucketOf(pack.getType());
    BlockArgument accumulator = accumulators.lookup(bucket.getValue());
    if (!accumulator)
      return function.emitOpError("takes no gradient bucket ") << bucket;
    // The complete local gradient is rounded once, to the type in which the parameter is stored.
    Type wide = getElementTypeOrSelf(pack.getType()), wire = wireTypes.lookup(bucket.getValue());
    Value own = ownShard(builder, converted(builder, pack, wire ? wire : wide));
    if (dist::reducesOnlyLast(stage, function->getParentOfType<ModuleOp>())) {
      returnReduced(bucket, own);
      continue;
    }
    dropAccumulators(pack, accumulator);
    results[index] = graph::AccumulateOp::create(builder, pack.getLoc(), accumulator, converted(builder, own, wide),
                                                 /*first_writes=*/builder.getUnitAttr());
    // What added up as a shard goes into the update in the wire type too. Of one micro-step it has that type already.
    if (wire && wire != wide)
      returnReduced(bucket, converted(builder, results[index], wire));
  }
  results.append(reduced);
  attributes.append(reducedAttributes);
  terminator->setOperands(results);
  function.setFunctionType(
      builder.getFunctionType(ValueRange(function.getArguments()).getTypes(), terminator->getOperandTypes()));
  function.setAllResultAttrs(attributes);
  return success();
}

/// A direction is made of what the momentum is, and needed as a whole: that is how matrices lie in it.
LogicalResult StatePartitioner::partitionDirection(graph::MomentumDirectionOp op) {
  OpOperand &gradient = op.getGradientMutable();
  if (!dist::isShard(gradient.get().getType()))
    return op.emitOpError("reads no gradient bucket: ") << gradient.get().getType();
  builder.setInsertionPoint(op);
  if (stage == 0) {
    gradient.assign(allGather(builder, op.getLoc(), gradient.get()));
    return success();
  }
  op.getNewMomentum().setType(op.getMomentum().getType());
  Value direction = op.getDirection();
  direction.setType(asShard(direction.getType()));
  builder.setInsertionPointAfter(op);
  Value full = allGather(builder, op.getLoc(), direction);
  direction.replaceAllUsesExcept(full, full.getDefiningOp());
  return success();
}

/// The norm reads own shards of gradients; the optimizer works on what its states are.
LogicalResult StatePartitioner::partitionUpdate() {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    if (auto direction = dyn_cast<graph::MomentumDirectionOp>(op))
      if (failed(partitionDirection(direction)))
        return failure();
    auto update = dyn_cast<OptimizerOpInterface>(op);
    if (!update)
      continue;
    OpOperand &gradient = update.getGradientMutable(), &parameter = update.getParameterMutable();
    // What matrices' directions were made into is whole.
    const bool isWhole = gradient.get().getDefiningOp<dist::PackOp>() != nullptr;
    if (!isWhole && !dist::isShard(gradient.get().getType()))
      return op.emitOpError("reads no gradient bucket: ") << gradient.get().getType();
    Location loc = op.getLoc();
    builder.setInsertionPoint(&op);
    if (isWhole && stage == 0)
      continue;
    if (isWhole)
      gradient.assign(ownShard(builder, gradient.get()));
    if (stage == 0) {
      gradient.assign(allGather(builder, loc, gradient.get()));
      continue;
    }
    if (dist::isFull(parameter.get().getType()))
      parameter.assign(ownShard(builder, parameter.get()));
    Value updated = update.getNewParameter();
    updated.setType(parameter.get().getType());
    for (auto [old, value] : llvm::zip_equal(update.keptValues(), update.newKeptValues()))
      value.setType(old.getType());
    if (stage == 3)
      continue;
    builder.setInsertionPointAfter(&op);
    Value full = allGather(builder, loc, updated);
    updated.replaceAllUsesExcept(full, full.getDefiningOp());
  }
  return success();
}

struct PartitionStates : impl::PartitionStatesBase<PartitionStates> {
  void runOnOperation() override {
    auto stage = getOperation()->getAttrOfType<IntegerAttr>(dist::kZero);
    if (!stage) {
      getOperation().emitError("has no ") << dist::kZero << ": no stage was chosen";
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(StatePartitioner(function, stage.getInt()).run()))
        return signalPassFailure();
  }
};
} // namespace
} // namespace ztc
