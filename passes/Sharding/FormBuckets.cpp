#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Autodiff/UpdateBody.h"
#include "passes/Sharding/BucketLayout.h"
#include "passes/Sharding/Passes.h"

#define DEBUG_TYPE "ztc-form-buckets"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_FORMBUCKETS
#include "passes/Sharding/Passes.h.inc"

namespace {

/// A bucket's arguments of one role in a function under construction, by bucket index; null where the role does not
/// apply.
using BucketValues = SmallVector<Value>;

/// What of a bucket an argument or a result is; of a state also which one.
struct BucketRole {
  graph::Role argument;
  graph::ResultKind result;
  StringRef state = {};
};
constexpr BucketRole kParameterRole{graph::Role::ParameterBucket, graph::ResultKind::Parameter},
    kGradientRole{graph::Role::GradientBucket, graph::ResultKind::Gradient},
    kMasterRole{graph::Role::MasterBucket, graph::ResultKind::Master};

class BucketFormer {
public:
  BucketFormer(ModuleOp module, BucketLayout layout)
      : module(module), layout(std::move(layout)), builder(module.getContext()) {}

  void emitBuckets();
  LogicalResult rewriteForward(func::FuncOp function);
  LogicalResult rewriteMicrostep(func::FuncOp function);
  LogicalResult rebuildUpdate(func::FuncOp function);

private:
  /// One element type per bucket; null where the bucket has no value of a role.
  using BucketTypes = SmallVector<Type>;
  BucketTypes parameterTypes(bool trainableOnly) const;
  /// Gradients add up in the type that ops compute in.
  BucketTypes gradientTypes() const;
  /// What @update says that its arguments of this kind are, by the parameters' names; else what `otherwise` says.
  BucketTypes keptTypes(func::FuncOp update, StringRef kind, const BucketTypes &otherwise) const;
  /// Of an argument or a result: what it is, of which bucket, and of a state which one.
  DictionaryAttr attributesOf(NamedAttribute what, StringRef state, unsigned bucket);
  BucketValues addBucketArguments(func::FuncOp function, BucketRole role, const BucketTypes &types);
  LogicalResult replaceParameters(func::FuncOp function, const BucketValues &buckets);
  Value accumulateGradient(Value slot, Value gradient);
  void replaceReturn(func::FuncOp function, ArrayRef<Value> results, ArrayRef<DictionaryAttr> attributes);
  FlatSymbolRefAttr symbol(unsigned bucket) {
    return FlatSymbolRefAttr::get(module.getContext(), layout.buckets[bucket].name);
  }
  /// Whole buckets: the stage decides later who keeps what of them.
  RankedTensorType flatType(const BucketPlan &bucket, Type elementType) {
    return module->hasAttr(dist::kZero) ? dist::fullType(bucket.name, elementType)
                                        : RankedTensorType::get({bucket.elements}, elementType);
  }

  ModuleOp module;
  BucketLayout layout;
  OpBuilder builder;
  SmallVector<Operation *> gradientSums; ///< sums that chains of accumulates replace
};

void BucketFormer::emitBuckets() {
  builder.setInsertionPointToStart(module.getBody());
  for (const BucketPlan &bucket : layout.buckets) {
    SmallVector<Attribute> entries;
    for (unsigned index : bucket.parameters) {
      const PlacedParameter &parameter = layout.parameters[index];
      entries.push_back(dist::makeBucketParameter(parameter.name, parameter.type.getShape(), parameter.offset,
                                                  parameter.tied, parameter.source));
    }
    dist::BucketOp::create(builder, module.getLoc(), builder.getStringAttr(bucket.name),
                           builder.getI64IntegerAttr(bucket.elements), builder.getI64IntegerAttr(bucket.decayed),
                           bucket.trainable ? builder.getUnitAttr() : UnitAttr(), builder.getArrayAttr(entries),
                           bucket.layer < 0 ? IntegerAttr() : builder.getI64IntegerAttr(bucket.layer),
                           bucket.quantum ? builder.getI64IntegerAttr(bucket.quantum) : IntegerAttr());
  }
}

BucketFormer::BucketTypes BucketFormer::parameterTypes(bool trainableOnly) const {
  BucketTypes types;
  for (const BucketPlan &bucket : layout.buckets)
    types.push_back(trainableOnly && !bucket.trainable ? Type() : bucket.elementType);
  return types;
}

BucketFormer::BucketTypes BucketFormer::gradientTypes() const {
  BucketTypes types = parameterTypes(/*trainableOnly=*/true);
  for (Type &type : types)
    type = type ? graph::computeType(type) : type;
  return types;
}

BucketFormer::BucketTypes BucketFormer::keptTypes(func::FuncOp update, StringRef kind,
                                                  const BucketTypes &otherwise) const {
  BucketTypes types = otherwise;
  for (unsigned index = 0; index < update.getNumArguments(); ++index)
    if (graph::argumentKind(update, index) == kind)
      if (const PlacedParameter *parameter = layout.find(graph::argString(update, index, graph::kName)))
        types[parameter->bucket] = getElementTypeOrSelf(update.getArgumentTypes()[index]);
  return types;
}

DictionaryAttr BucketFormer::attributesOf(NamedAttribute what, StringRef state, unsigned bucket) {
  SmallVector<NamedAttribute> entries{what, builder.getNamedAttr(graph::kBucket, symbol(bucket))};
  if (!state.empty())
    entries.push_back(builder.getNamedAttr(graph::kState, builder.getStringAttr(state)));
  return builder.getDictionaryAttr(entries);
}

BucketValues BucketFormer::addBucketArguments(func::FuncOp function, BucketRole role, const BucketTypes &types) {
  BucketValues values(layout.buckets.size());
  for (auto [index, bucket] : llvm::enumerate(layout.buckets)) {
    if (!types[index])
      continue;
    unsigned position = function.getNumArguments();
    (void)function.insertArgument(
        position, flatType(bucket, types[index]),
        attributesOf(graph::namedRole(builder.getContext(), role.argument), role.state, index), function.getLoc());
    values[index] = function.getArgument(position);
  }
  return values;
}

/// Every parameter argument becomes a view of its bucket.
LogicalResult BucketFormer::replaceParameters(func::FuncOp function, const BucketValues &buckets) {
  builder.setInsertionPointToStart(&function.getBody().front());
  SmallVector<unsigned> indices = graph::argumentsWithRole(function, graph::Role::Parameter);
  llvm::BitVector erased(function.getNumArguments());
  for (unsigned index : indices) {
    StringRef name = graph::argString(function, index, graph::kName);
    const PlacedParameter *parameter = layout.find(name);
    BlockArgument argument = function.getArgument(index);
    if (!parameter || parameter->type != argument.getType())
      return function.emitOpError("takes parameter '")
             << name << "', which the other functions do not know in this type";
    if (!argument.use_empty()) {
      auto loc = NameLoc::get(parameter->name);
      Value view = dist::ViewOp::create(builder, loc, parameter->type, buckets[parameter->bucket],
                                        builder.getI64IntegerAttr(parameter->offset));
      argument.replaceAllUsesWith(view);
    }
    erased.set(index);
  }
  (void)function.eraseArguments(erased);
  return success();
}

LogicalResult BucketFormer::rewriteForward(func::FuncOp function) {
  BucketValues buckets = addBucketArguments(function, kParameterRole, parameterTypes(false));
  return replaceParameters(function, buckets);
}

/// Adds a gradient into its place. A gradient that is the sum of several contributions (a tied parameter) is added part
/// by part, in the order in which they come about.
Value BucketFormer::accumulateGradient(Value slot, Value gradient) {
  SmallVector<Value> parts{gradient};
  SmallVector<Operation *> sums;
  for (unsigned i = 0; i < parts.size();) {
    Operation *sum = parts[i].getDefiningOp();
    bool isSum = isa_and_nonnull<graph::AddOp, graph::AccumulateOp>(sum) && !sum->hasAttr("first_writes");
    if (!isSum || !sum->hasOneUse() || sum->getOperand(0) == sum->getOperand(1)) {
      ++i;
      continue;
    }
    sums.push_back(sum);
    parts[i] = sum->getOperand(0);
    parts.insert(parts.begin() + i + 1, sum->getOperand(1));
  }
  llvm::stable_sort(parts, [](Value a, Value b) {
    Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
    return first && second && first != second && first->isBeforeInBlock(second);
  });
  Value sum = slot;
  for (auto [index, part] : llvm::enumerate(parts))
    sum =
        graph::AccumulateOp::create(builder, part.getLoc(), sum, part, index == 0 ? builder.getUnitAttr() : UnitAttr());
  gradientSums.append(sums);
  return sum;
}

LogicalResult BucketFormer::rewriteMicrostep(func::FuncOp function) {
  BucketTypes types = gradientTypes();
  BucketValues buckets = addBucketArguments(function, kParameterRole, parameterTypes(false));
  BucketValues accumulators = addBucketArguments(function, kGradientRole, types);
  if (failed(replaceParameters(function, buckets)))
    return failure();
  auto terminator = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  builder.setInsertionPoint(terminator);

  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttributes;
  std::vector<Value> gradients(layout.parameters.size());
  for (auto [index, value] : llvm::enumerate(terminator.getOperands())) {
    if (graph::resultOf(function, index) != graph::ResultKind::Gradient) {
      results.push_back(value);
      resultAttributes.push_back(function.getResultAttrDict(index));
      continue;
    }
    auto name = function.getResultAttrOfType<StringAttr>(index, graph::kName);
    const PlacedParameter *parameter = name ? layout.find(name.getValue()) : nullptr;
    if (!parameter || !parameter->trainable)
      return function.emitOpError("result ") << index << " is not the gradient of a trainable parameter";
    gradients[parameter - layout.parameters.data()] = value;
  }
  for (auto [index, bucket] : llvm::enumerate(layout.buckets)) {
    if (!bucket.trainable)
      continue;
    SmallVector<Value> parts;
    SmallVector<int64_t> offsets;
    for (unsigned member : bucket.parameters) {
      const PlacedParameter &parameter = layout.parameters[member];
      if (!gradients[member])
        return function.emitOpError("yields no gradient of '") << parameter.name.getValue() << "'";
      auto loc = NameLoc::get(parameter.name);
      auto type = RankedTensorType::get(parameter.type.getShape(), types[index]);
      if (gradients[member].getType() != type)
        return function.emitOpError("yields the gradient of '")
               << parameter.name.getValue() << "' as " << gradients[member].getType() << ", expected " << type;
      Value slot =
          dist::ViewOp::create(builder, loc, type, accumulators[index], builder.getI64IntegerAttr(parameter.offset));
      parts.push_back(accumulateGradient(slot, gradients[member]));
      offsets.push_back(parameter.offset);
    }
    results.push_back(dist::PackOp::create(builder, NameLoc::get(builder.getStringAttr(bucket.name)),
                                           flatType(bucket, types[index]), parts,
                                           builder.getDenseI64ArrayAttr(offsets)));
    resultAttributes.push_back(attributesOf(graph::namedResult(builder.getContext(), kGradientRole.result), "", index));
  }
  replaceReturn(function, results, resultAttributes);
  for (Operation *sum : gradientSums)
    sum->erase();
  return success();
}

LogicalResult BucketFormer::rebuildUpdate(func::FuncOp function) {
  SmallVector<unsigned> steps = graph::argumentsWithRole(function, graph::Role::Step);
  if (steps.size() != 1)
    return function.emitOpError("has ") << steps.size() << " arguments with the role step, expected one";
  // A gradient comes in the type of the wire, as the parameter is stored; where there are no ranks there is no wire.
  BucketTypes stored = parameterTypes(/*trainableOnly=*/true), computed = gradientTypes();
  BucketTypes gradientType = module->hasAttr(dist::kZero) ? stored : computed;
  SmallVector<BucketRole> stateRoles;
  SmallVector<BucketTypes> stateTypes;
  const SmallVector<graph::OptimizerState> allStates = graph::statesOf(module);
  for (const graph::OptimizerState &state : allStates) {
    stateRoles.push_back({graph::Role::StateBucket, graph::ResultKind::State, state.name});
    BucketTypes types = computed;
    for (auto [index, bucket] : llvm::enumerate(layout.buckets))
      if (!graph::optimizerOf(module, bucket.isOfMatrices).state(state.name))
        types[index] = Type();
    stateTypes.push_back(keptTypes(function, state.name, types));
  }
  const BucketTypes masterTypes = keptTypes(function, "master", BucketTypes(layout.buckets.size()));
  Block &body = function.getBody().front();
  body.clear();
  llvm::BitVector erased(function.getNumArguments(), true);
  erased.reset(steps.front());
  (void)function.eraseArguments(erased);

  BucketValues parameters = addBucketArguments(function, kParameterRole, stored),
               gradients = addBucketArguments(function, kGradientRole, gradientType);
  SmallVector<BucketValues> states;
  for (auto [role, types] : llvm::zip_equal(stateRoles, stateTypes))
    states.push_back(addBucketArguments(function, role, types));
  BucketValues masters = addBucketArguments(function, kMasterRole, masterTypes);
  std::vector<UpdateEntry> entries;
  SmallVector<unsigned> indices;
  for (auto [index, bucket] : llvm::enumerate(layout.buckets)) {
    if (!bucket.trainable)
      continue;
    const bool isAll = module->hasAttr(dist::kZero) && bucket.decayed == bucket.elements;
    UpdateEntry &entry = entries.emplace_back(UpdateEntry{
        parameters[index], gradients[index], {}, masters[index], isAll ? graph::kAllDecayed : bucket.decayed, {}});
    for (unsigned member : bucket.parameters)
      entry.tensors.push_back({layout.parameters[member].name.str(), layout.parameters[member].offset});
    for (unsigned member : bucket.parameters) {
      const PlacedParameter &parameter = layout.parameters[member];
      entry.rates.ends.push_back(parameter.offset + parameter.type.getNumElements());
      entry.rates.factors.push_back(parameter.rate);
    }
    for (unsigned member : bucket.parameters)
      if (const PlacedParameter &parameter = layout.parameters[member]; parameter.changeFactor)
        entry.matrices.push_back({parameter.name.str(), parameter.offset,
                                  SmallVector<int64_t>(parameter.type.getShape()), *parameter.changeFactor});
    for (const BucketValues &values : states)
      if (values[index])
        entry.states.push_back(values[index]);
    indices.push_back(index);
  }
  builder.setInsertionPointToEnd(&body);
  UpdateValues values = buildUpdateBody(builder, function.getLoc(), function.getArgument(0), entries);

  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attributes;
  auto addResults = [&](BucketRole role, function_ref<Value(const UpdatedEntry &)> valueOf) {
    for (auto [entry, index] : llvm::zip_equal(values.entries, indices))
      if (Value value = valueOf(entry)) {
        results.push_back(value);
        attributes.push_back(attributesOf(graph::namedResult(builder.getContext(), role.result), role.state, index));
      }
  };
  auto addScalar = [&](Value value, graph::ResultKind kind) {
    results.push_back(value);
    attributes.push_back(builder.getDictionaryAttr(graph::namedResult(builder.getContext(), kind)));
  };
  addResults(kParameterRole, [](const UpdatedEntry &entry) { return entry.parameter; });
  // An entry's states are in the order of the roles that it has.
  SmallVector<unsigned> next(values.entries.size());
  for (auto [role, held] : llvm::zip_equal(stateRoles, states))
    for (auto [entry, index, number] : llvm::zip_equal(values.entries, indices, next))
      if (held[index]) {
        results.push_back(entry.states[number++]);
        attributes.push_back(attributesOf(graph::namedResult(builder.getContext(), role.result), role.state, index));
      }
  addResults(kMasterRole, [](const UpdatedEntry &entry) { return entry.master; });
  addScalar(values.gradientNorm, graph::ResultKind::GradientNorm);
  addScalar(values.finite, graph::ResultKind::Finite);
  func::ReturnOp::create(builder, function.getLoc());
  replaceReturn(function, results, attributes);
  return success();
}

void BucketFormer::replaceReturn(func::FuncOp function, ArrayRef<Value> results, ArrayRef<DictionaryAttr> attributes) {
  function.getBody().front().getTerminator()->setOperands(results);
  function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(results))));
  function.setAllResultAttrs(attributes);
}

struct FormBuckets : impl::FormBucketsBase<FormBuckets> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp first = graph::findEntry(module, graph::Entry::Microstep);
    for (auto function : module.getOps<func::FuncOp>())
      if (!first)
        first = function;
    if (!first)
      return;
    FailureOr<BucketLayout> layout = layOutBuckets(first);
    if (failed(layout))
      return signalPassFailure();
    BucketFormer former(module, std::move(*layout));
    former.emitBuckets();
    for (auto function : module.getOps<func::FuncOp>()) {
      LogicalResult result = graph::isEntry(function, graph::Entry::Microstep) ? former.rewriteMicrostep(function)
                             : graph::isEntry(function, graph::Entry::Update)  ? former.rebuildUpdate(function)
                                                                               : former.rewriteForward(function);
      if (failed(result))
        return signalPassFailure();
    }
  }
};
} // namespace
} // namespace ztc
