#include "compiler/Analysis/Stages.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Verify/Checks.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-shard"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYSHARD
#include "passes/Verify/Passes.h.inc"

namespace {

/// A module after phase `shard`.
struct ShardedModule {
  ModuleOp module;
  std::optional<unsigned> stage; ///< nothing: flat buckets without a mesh

  dist::BucketOp bucket(FlatSymbolRefAttr name) const {
    return name ? ModuleOp(module).lookupSymbol<dist::BucketOp>(name.getAttr()) : dist::BucketOp();
  }
  /// The type of a whole bucket of `elements`, or of a shard of it.
  RankedTensorType type(dist::BucketOp bucket, Type element, bool shard) const {
    if (!stage)
      return RankedTensorType::get({int64_t(bucket.getElements())}, element);
    return shard ? dist::shardType(bucket.getSymName(), element) : dist::fullType(bucket.getSymName(), element);
  }
};

/// (S3)
LogicalResult checkNames(ModuleOp module) {
  llvm::StringMap<dist::BucketOp> homes;
  for (auto bucket : module.getOps<dist::BucketOp>())
    for (Attribute entry : bucket.getParameters()) {
      dist::BucketParameter parameter = dist::readBucketParameter(entry);
      SmallVector<StringAttr> names{parameter.name};
      if (parameter.tied)
        llvm::append_range(names, parameter.tied.getAsRange<StringAttr>());
      for (StringAttr name : names) {
        auto [home, inserted] = homes.try_emplace(name.getValue(), bucket);
        if (inserted)
          continue;
        InFlightDiagnostic error = bucket.emitOpError("S3: ")
                                   << name << " stands in " << (home->second == bucket ? "it twice" : "two buckets");
        if (home->second != bucket)
          error.attachNote(home->second.getLoc()) << "the other one is " << home->second.getSymNameAttr();
        return error;
      }
    }
  return success();
}

/// (S1) and (S2)
LogicalResult checkArguments(const ShardedModule &sharded, func::FuncOp function) {
  for (unsigned index = 0; index < function.getNumArguments(); ++index) {
    using enum graph::Role;
    const std::optional<graph::Role> role = graph::roleOf(function, index);
    const StringRef name = role ? graph::stringifyRole(*role) : "";
    if (graph::isFp8State(graph::argumentKind(function, index)))
      continue; // it belongs to no parameter
    if (role == Parameter || role == Gradient || role == State || role == Master)
      return function.emitOpError("S1: argument ") << index << " is a single " << name;
    if (!graph::isBucket(role))
      continue;
    auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
    dist::BucketOp bucket = sharded.bucket(symbol);
    if (!bucket)
      return function.emitOpError("S2: argument ") << index << " (" << name << ") names no dist.bucket";
    Type type = function.getArgumentTypes()[index];
    bool shard = sharded.stage && dist::isShardedAt(*sharded.stage, function, *role);
    if (auto expected = sharded.type(bucket, getElementTypeOrSelf(type), shard); type != expected)
      return function.emitOpError("S2: argument ")
             << index << " (" << name << ") has type " << type << ", expected " << expected;
  }
  return success();
}

/// The results of a function by kind and bucket.
class BucketResults {
public:
  explicit BucketResults(func::FuncOp function) : function(function) {}

  /// (S1) and (S4): one result of this kind per trainable bucket (`only`: of those it holds for), of this form, and
  /// none for others.
  LogicalResult check(const ShardedModule &sharded, StringRef kind, bool shard,
                      function_ref<bool(dist::BucketOp)> only = nullptr) {
    Operation *terminator = function.getBody().front().getTerminator();
    llvm::StringMap<unsigned> count;
    for (unsigned index = 0; index < function.getNumResults(); ++index) {
      if (graph::resultKind(function, index) != kind)
        continue;
      auto symbol = function.getResultAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
      if (!symbol)
        return function.emitOpError("S1: result ") << index << " is a single " << kind;
      ++count[symbol.getValue()];
      Value value = terminator->getOperand(index);
      dist::BucketOp bucket = sharded.bucket(symbol);
      if (!bucket)
        return function.emitOpError("S4: result ") << index << " (" << kind << ") names no dist.bucket";
      auto expected = sharded.type(bucket, getElementTypeOrSelf(value.getType()), shard);
      if (value.getType() != expected)
        return function.emitOpError("S4: result ")
               << index << " (" << kind << ") has type " << value.getType() << ", expected " << expected;
      values[(kind + " " + symbol.getValue()).str()] = value;
    }
    for (auto bucket : ModuleOp(sharded.module).getOps<dist::BucketOp>())
      if (unsigned found = count.lookup(bucket.getSymName());
          found != unsigned(bucket.getTrainable() && (!only || only(bucket))))
        return function.emitOpError("S4: returns ")
               << found << " results of kind " << kind << " for bucket " << bucket.getSymNameAttr();
    return success();
  }
  Value find(StringRef kind, dist::BucketOp bucket) const {
    return values.lookup((kind + " " + bucket.getSymName()).str());
  }

private:
  func::FuncOp function;
  llvm::StringMap<Value> values;
};

/// What the parameters of a bucket are stored in; null where the function takes none of them.
Type parameterType(func::FuncOp function, dist::BucketOp bucket) {
  for (unsigned index : graph::argumentsWithRole(function, graph::Role::ParameterBucket))
    if (auto name = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
        name && name.getValue() == bucket.getSymName())
      return getElementTypeOrSelf(function.getArgumentTypes()[index]);
  return {};
}

bool takesState(func::FuncOp function, dist::BucketOp bucket, StringRef state) {
  for (unsigned index : graph::argumentsWithRole(function, graph::Role::StateBucket))
    if (auto name = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
        name && name.getValue() == bucket.getSymName() && graph::argumentKind(function, index) == state)
      return true;
  return false;
}

LogicalResult checkResults(const ShardedModule &sharded, func::FuncOp function, BucketResults &results) {
  unsigned stage = sharded.stage.value_or(0);
  if (graph::isEntry(function, graph::Entry::Microstep)) {
    if (failed(results.check(sharded, "gradient", dist::isShardedAt(stage, function, graph::Role::GradientBucket))))
      return failure();
    // Where shards add up it is a value of its own if its type is.
    auto isRounded = [&](dist::BucketOp bucket) {
      Type held = parameterType(function, bucket);
      return held && held != getElementTypeOrSelf(results.find("gradient", bucket).getType());
    };
    if (sharded.stage && dist::reducesOnlyLast(stage, sharded.module))
      return results.check(sharded, "reduced_gradient", true);
    if (sharded.stage)
      return results.check(sharded, "reduced_gradient", true, isRounded);
  }
  if (graph::isEntry(function, graph::Entry::Update)) {
    if (failed(results.check(sharded, "parameter", dist::isShardedAt(stage, function, graph::Role::ParameterBucket))))
      return failure();
    for (const graph::OptimizerState &state : graph::statesOf(sharded.module)) {
      // Where matrices have other states than the rest, a bucket's results are those of its arguments.
      const bool isOneRule = !graph::optimizerOf(sharded.module).orthogonalizes;
      auto has = [&](dist::BucketOp bucket) { return isOneRule || takesState(function, bucket, state.name); };
      if (failed(results.check(sharded, state.name, dist::isShardedAt(stage, function, graph::Role::StateBucket), has)))
        return failure();
    }
  }
  return success();
}

/// (S5)
LogicalResult checkReductions(const ShardedModule &sharded, func::FuncOp function, const BucketResults &results) {
  if (!sharded.stage)
    return success();
  bool onlyLast = dist::reducesOnlyLast(*sharded.stage, sharded.module);
  llvm::StringMap<dist::ReduceScatterOp> reductions;
  for (auto reduce : function.getBody().front().getOps<dist::ReduceScatterOp>()) {
    FlatSymbolRefAttr name = dist::bucketOf(reduce.getFull().getType());
    if (dist::BucketOp bucket = sharded.bucket(name); !bucket || !bucket.getTrainable())
      return reduce.emitOpError("S5: reduces the gradient of ") << name << ", which is not trainable";
    if (!reductions.try_emplace(name.getValue(), reduce).second)
      return reduce.emitOpError("S5: reduces the gradient of ") << name << " a second time";
    if (!localGradientOf(reduce.getFull()))
      return reduce.emitOpError("S5: reduces what is not a dist.pack of local gradients");
    if (reduce.getOnlyLast() != onlyLast)
      return reduce.emitOpError("S5: reduces ")
             << (onlyLast ? "every micro-step's gradient where they add up first"
                          : "the last micro-step's gradient only where none are kept")
             << " (ZeRO-" << *sharded.stage << ")";
  }
  for (auto bucket : ModuleOp(sharded.module).getOps<dist::BucketOp>()) {
    if (!bucket.getTrainable())
      continue;
    dist::ReduceScatterOp reduce = reductions.lookup(bucket.getSymName());
    if (!reduce)
      return function.emitOpError("S5: the gradient of ") << bucket.getSymNameAttr() << " is not reduced";
    Value gradient = results.find("gradient", bucket);
    if (onlyLast) {
      if (gradient != localGradientOf(reduce.getFull())->getResult(0) ||
          results.find("reduced_gradient", bucket) != reduce.getY())
        return reduce.emitOpError("S5: neither reads the returned gradient nor is returned as the reduced one");
      continue;
    }
    auto sum = gradient.getDefiningOp<graph::AccumulateOp>();
    Value addend = sum ? sum.getX() : Value();
    if (auto widened = addend ? addend.getDefiningOp<graph::CastOp>() : graph::CastOp())
      addend = widened.getX();
    if (!sum || !sum.getFirstWrites() || addend != reduce.getY() || !isa<BlockArgument>(sum.getAccumulator()))
      return reduce.emitOpError("S5: is not what is added to the gradient of ") << bucket.getSymNameAttr();
    if (Value rounded = results.find("reduced_gradient", bucket)) {
      auto cast = rounded.getDefiningOp<graph::CastOp>();
      if (!cast || cast.getX() != gradient)
        return sum.emitOpError("S5: is not what is returned, rounded, as the reduced gradient of ")
               << bucket.getSymNameAttr();
    }
  }
  return success();
}

/// (S9)
class StorageTypes {
public:
  explicit StorageTypes(const ShardedModule &sharded) : sharded(sharded) {}

  LogicalResult check(func::FuncOp function) {
    for (unsigned index = 0; index < function.getNumArguments(); ++index) {
      const std::optional<graph::Role> role = graph::roleOf(function, index);
      auto bucket = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
      if (!bucket || !graph::isBucket(role))
        continue;
      Type type = getElementTypeOrSelf(function.getArgumentTypes()[index]);
      if (role == graph::Role::ParameterBucket) {
        Type &stored = types.try_emplace(bucket.getValue(), type).first->second;
        if (stored != type)
          return function.emitOpError("S9: takes parameters of ")
                 << bucket << " as " << type << ", another function as " << stored;
      }
      Type expected = expectedType(function, *role, types.lookup(bucket.getValue()));
      if (expected && type != expected)
        return function.emitOpError("S9: argument ") << index << " (" << graph::stringifyRole(*role) << ") of "
                                                     << bucket << " holds " << type << ", expected " << expected;
    }
    if (graph::isEntry(function, graph::Entry::Update))
      return success(); // what it sends are directions
    for (auto reduce : function.getBody().front().getOps<dist::ReduceScatterOp>()) {
      Type stored = types.lookup(dist::bucketOf(reduce.getFull().getType()).getValue());
      if (stored && getElementTypeOrSelf(reduce.getFull().getType()) != stored)
        return reduce.emitOpError("S9: sends gradients of ")
               << getElementTypeOrSelf(reduce.getFull().getType()) << " for parameters of " << stored;
    }
    return success();
  }

private:
  /// Null: any type.
  Type expectedType(func::FuncOp function, graph::Role role, Type stored) const {
    if (!stored)
      return {};
    if (role == graph::Role::GradientBucket) {
      const bool isOnWire = graph::isEntry(function, graph::Entry::Update) && sharded.stage;
      return isOnWire ? stored : graph::computeType(stored);
    }
    if (role == graph::Role::MasterBucket)
      return stored.isBF16() ? Type(IntegerType::get(stored.getContext(), 16))
                             : Type(Float32Type::get(stored.getContext()));
    return {};
  }

  const ShardedModule &sharded;
  llvm::StringMap<Type> types; ///< of parameters, by bucket
};

/// (S6)
LogicalResult checkLayouts(const ShardedModule &sharded) {
  auto mesh = ModuleOp(sharded.module).lookupSymbol<dist::MeshOp>(dist::kMesh);
  WalkResult result = ModuleOp(sharded.module).walk([&](Operation *op) -> WalkResult {
    for (Type type : op->getResultTypes())
      if (FlatSymbolRefAttr name = dist::bucketOf(type); name && !sharded.bucket(name))
        return op->emitOpError("S6: gives the layout of ") << name << ", which is not a dist.bucket";
    if (auto view = dyn_cast<dist::ViewOp>(op))
      if (dist::BucketOp bucket = sharded.bucket(dist::bucketOf(view.getBucket().getType()))) {
        int64_t end = view.getOffset() + cast<RankedTensorType>(view.getY().getType()).getNumElements();
        if (end > int64_t(bucket.getElements()))
          return op->emitOpError("S6: covers elements ")
                 << int64_t(view.getOffset()) << " to " << end << " of " << int64_t(bucket.getElements());
      }
    if (auto pack = dyn_cast<dist::PackOp>(op); pack && !pack.getParts().empty())
      if (dist::BucketOp bucket = sharded.bucket(dist::bucketOf(pack.getBucket().getType()))) {
        int64_t end =
            pack.getOffsets().back() + cast<RankedTensorType>(pack.getParts().back().getType()).getNumElements();
        if (end > int64_t(bucket.getElements()))
          return op->emitOpError("S6: the last part ends at ")
                 << end << ", the bucket at " << int64_t(bucket.getElements());
      }
    if (auto axis = op->getAttrOfType<StringAttr>("axis"); axis && isa<dist::DistDialect>(op->getDialect()))
      if (!mesh || !llvm::is_contained(mesh.getAxes(), Attribute(axis)))
        return op->emitOpError("S6: the mesh has no axis ") << axis;
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// The last op that reads `value` or an alias of it.
Operation *lastReader(Value value) {
  Operation *last = nullptr;
  for (Operation *user : value.getUsers()) {
    Operation *reader = aliasOf(user) ? lastReader(user->getResult(0)) : user;
    if (reader && (!last || last->isBeforeInBlock(reader)))
      last = reader;
  }
  return last;
}

/// (S7)
LogicalResult checkGathers(func::FuncOp function) {
  llvm::StringMap<dist::AllGatherOp> gathers;
  for (auto gather : function.getBody().front().getOps<dist::AllGatherOp>()) {
    FlatSymbolRefAttr name = dist::bucketOf(gather.getY().getType());
    auto [first, inserted] = gathers.try_emplace(name.getValue(), gather);
    if (inserted)
      continue;
    Operation *reader = lastReader(first->second.getY());
    if (reader && gather->isBeforeInBlock(reader)) {
      InFlightDiagnostic error = reader->emitOpError("S7: reads an earlier gather of ") << name << " than the last";
      error.attachNote(gather.getLoc()) << "it is gathered again here";
      return error;
    }
    first->second = gather;
  }
  return success();
}

/// (S8)
LogicalResult checkNorm(func::FuncOp function) {
  Block &body = function.getBody().front();
  for (auto squares : body.getOps<graph::SumSquaresOp>())
    if (!dist::isShard(squares.getX().getType()))
      return squares.emitOpError("S8: sums the squares of ") << squares.getX().getType() << ", which is not a shard";
  auto reductions = body.getOps<dist::AllReduceOp>();
  auto count = std::distance(reductions.begin(), reductions.end());
  auto squares = body.getOps<graph::SumSquaresOp>();
  const bool isOfEach = graph::updatesInBackward(function->getParentOfType<ModuleOp>());
  const int64_t needed = isOfEach ? std::distance(squares.begin(), squares.end()) : int64_t(!squares.empty());
  if (count != needed)
    return function.emitOpError("S8: the norm takes one all_reduce")
           << (isOfEach ? " of each bucket" : "") << ", found " << count;
  for (auto squares : body.getOps<graph::SumSquaresOp>()) {
    // Sums of scalars lead to the one all_reduce and nowhere else.
    Operation *user = squares;
    while (user && !isa<dist::AllReduceOp>(user))
      user = user->hasOneUse() && (isa<graph::SumSquaresOp>(user) || (!isOfEach && isa<graph::AddOp>(user)))
                 ? *user->user_begin()
                 : nullptr;
    if (!user)
      return squares.emitOpError("S8: does not end in the all_reduce of the norm alone");
  }
  return success();
}

struct VerifyShard : impl::VerifyShardBase<VerifyShard> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    if (failed(verify()))
      signalPassFailure();
  }

  LogicalResult verify() {
    ShardedModule sharded{getOperation(), {}};
    if (auto stage = getOperation()->getAttrOfType<IntegerAttr>(dist::kZero))
      sharded.stage = unsigned(stage.getInt());
    if (failed(checkNames(sharded.module)) || failed(checkLayouts(sharded)))
      return failure();
    StorageTypes types(sharded);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      BucketResults results(function);
      if (failed(checkArguments(sharded, function)) || failed(checkResults(sharded, function, results)) ||
          failed(checkGathers(function)))
        return failure();
      if (failed(types.check(function)))
        return failure();
      if (graph::isEntry(function, graph::Entry::Microstep) && failed(checkReductions(sharded, function, results)))
        return failure();
      if (graph::isEntry(function, graph::Entry::Update) && sharded.stage && failed(checkNorm(function)))
        return failure();
    }
    return success();
  }
};
} // namespace
} // namespace ztc
