#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/Policy.h"

#define DEBUG_TYPE "ztc-assign-storage"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_ASSIGNSTORAGE
#include "passes/Precision/Passes.h.inc"

namespace {

Type elementOf(Value value) {
  return getElementTypeOrSelf(value.getType());
}
bool isReal(Value value) {
  return isa<FloatType>(elementOf(value));
}
void setElement(Value value, Type element) {
  value.setType(cast<RankedTensorType>(value.getType()).clone(element));
}

/// Ops whose result holds elements of their one operand, in another place.
bool movesElements(Operation *op) {
  return isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp>(op);
}

/// Whether every element of a constant is a number of `narrow`.
bool fits(graph::ConstantOp constant, Type narrow) {
  auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
  if (!splat)
    return false;
  APFloat number = splat.getSplatValue<APFloat>();
  bool losesInformation = false;
  number.convert(cast<FloatType>(narrow).getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInformation);
  return !losesInformation;
}

/// Values that end as what a function returns in f32, a gradient or logits, and nowhere else.
DenseSet<Value> valuesAskedFor(func::FuncOp function) {
  DenseSet<Value> asked;
  auto endsThere = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<func::ReturnOp>(user)) {
      const std::optional<graph::ResultKind> kind = graph::resultOf(function, use.getOperandNumber());
      return kind == graph::ResultKind::Gradient || kind == graph::ResultKind::Logits;
    }
    bool adds = isa<graph::AddOp, graph::AccumulateOp, graph::ReduceSumOp, graph::PadOp, graph::ConcatOp>(user);
    return (adds || movesElements(user)) && asked.contains(user->getResult(0));
  };
  for (Operation &op : llvm::reverse(function.getBody().front().without_terminator()))
    for (Value result : op.getResults())
      if (isReal(result) && !result.use_empty() && llvm::all_of(result.getUses(), endsThere))
        asked.insert(result);
  return asked;
}

/// Rewrites the body of one function in place, op by op.
class StorageAssigner {
public:
  StorageAssigner(func::FuncOp function, Type narrow, PrecisionOverrides &overrides)
      : function(function), block(function.getBody().front()), narrow(narrow), overrides(overrides),
        builder(function.getContext()), f32(builder.getF32Type()), asked(valuesAskedFor(function)),
        dataOnly(dataOnlyValues(block)), vectors(parameterVectors(function)) {
    for (auto [index, value] : llvm::enumerate(block.getTerminator()->getOperands()))
      if (graph::resultOf(function, index) == graph::ResultKind::Loss)
        lossOp = resolveAlias(value).source.getDefiningOp();
  }

  LogicalResult run() {
    if (failed(checkSources()))
      return failure();
    assignParameters();
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      ops.push_back(&op);
    for (Operation *op : ops)
      assign(op);
    Operation *terminator = block.getTerminator();
    for (OpOperand &result : terminator->getOpOperands())
      convert(result, isCache(result) && !excepted.contains(result.get()) ? narrow : f32);
    for (Operation *op : ops)
      for (Value result : op->getResults())
        roundStored(result);
    eraseDeadOps(block);
    function.setFunctionType(
        builder.getFunctionType(ValueRange(block.getArguments()).getTypes(), terminator->getOperandTypes()));
    return success();
  }

private:
  /// A policy starts from f32.
  LogicalResult checkSources() {
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        if (isReal(operand) && elementOf(operand) != f32)
          return op.emitOpError("reads ") << operand.getType() << " where a precision is chosen for f32";
    return success();
  }

  void assignParameters() {
    for (unsigned index : graph::argumentsWithRole(function, graph::Role::Parameter)) {
      BlockArgument argument = function.getArgument(index);
      if (overrides.keepsParameter(function, index))
        excepted.insert(argument);
      else
        setElement(argument, narrow);
    }
    // A cache holds what attention reads, in the type in which it reads that; a state is f32.
    for (unsigned index : graph::argumentsWithRole(function, graph::Role::Cache))
      if (BlockArgument argument = function.getArgument(index);
          !function.getArgAttr(index, graph::kWide) &&
          llvm::none_of(argument.getUsers(), [&](Operation *user) { return overrides.hasOp(user); }))
        setElement(argument, narrow);
  }

  /// Whether a return hands on keys or values, or the last inputs of a convolution.
  bool isCache(OpOperand &result) {
    return graph::resultOf(function, result.getOperandNumber()) == graph::ResultKind::Cache &&
           !function.getResultAttr(result.getOperandNumber(), graph::kWide);
  }

  void assign(Operation *op) {
    if (isa<graph::ConstantOp>(op) || isDataOnly(op))
      return;
    if (overrides.hasOp(op)) {
      for (OpOperand &operand : op->getOpOperands())
        convert(operand, f32);
      excepted.insert_range(op->getResults());
      return;
    }
    if (op->hasAttr(graph::kWide))
      return assignWide(op);
    if (auto mixed = dyn_cast<PrecisionOpInterface>(op))
      return assignByRule(op, mixed.getPrecisionRule());
    // One type; macro ops and library calls compute in f32 whatever it is.
    if (isa<graph::CastOp>(op))
      return; // between integers and f32
    bool computesInside = isa<DecomposableOpInterface>(op) || isLibraryCall(op);
    bool isVector = op->getNumResults() == 1 && vectors.contains(op->getResult(0));
    Type type = !computesInside && (isVector || isWide(op)) ? f32 : narrow;
    for (OpOperand &operand : op->getOpOperands())
      if (!computesInside || !readsWideVector(operand))
        convert(operand, type);
    for (Value result : op->getResults())
      if (isReal(result))
        setElement(result, type);
  }

  /// Whether a macro op reads a vector of parameters beside its rows, as rms_norm reads 1 + w: it widens what it reads,
  /// and only what has the shape of its result must have its type.
  bool readsWideVector(OpOperand &operand) const {
    auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
    return vectors.contains(operand.get()) && shapeOf(operand.get()) != shapeOf(operand.getOwner()->getResult(0));
  }

  /// Positions, masks, routing numbers: f32 whatever reads them, as their integers may be greater than a narrow type's.
  bool isDataOnly(Operation *op) const {
    return llvm::any_of(op->getResults(), [&](Value result) { return dataOnly.contains(result); });
  }

  /// An op of an attention that is written out, of a choice of experts, or of linear attention.
  void assignWide(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      const Value before = operand.get();
      convert(operand, isa<graph::MatmulOp>(op) && !op->hasAttr(graph::kWideFactors) ? narrow : f32);
      if (operand.get() != before && elementOf(operand.get()) == f32)
        markedWide(operand.get());
    }
    wideByRule.insert_range(op->getResults());
  }

  /// A copy for ops that compute in f32 alone.
  Value markedWide(Value copy) {
    copy.getDefiningOp()->setAttr(graph::kWide, builder.getUnitAttr());
    return copy;
  }

  void assignByRule(Operation *op, const PrecisionRule &rule) {
    for (auto [operand, storage] : llvm::zip(op->getOpOperands(), rule.operands))
      if (storage != Storage::Free || excepted.contains(operand.get()))
        convert(operand, storage == Storage::Wide ? f32 : narrow);
    for (auto [result, storage] : llvm::zip(op->getResults(), rule.results))
      if (isReal(result) && (storage == Storage::Narrow || (storage == Storage::Asked && !asked.contains(result))))
        setElement(result, narrow);
      else
        wideByRule.insert(result);
  }

  /// Whether an op without a row of its own computes a value that stays f32.
  bool isWide(Operation *op) {
    bool anyReal = false;
    for (Value operand : op->getOperands()) {
      if (!isReal(operand))
        continue;
      anyReal = true;
      if (auto constant = operand.getDefiningOp<graph::ConstantOp>()) {
        if (!fits(constant, narrow))
          return true;
      } else if (elementOf(operand) == f32 && !excepted.contains(operand)) {
        return true;
      }
    }
    return !anyReal;
  }

  /// Lets a use read its value in `type`. A narrow form is made once, where the value is; a wide one at each use.
  void convert(OpOperand &use, Type type) {
    Value value = use.get();
    if (!isReal(value) || elementOf(value) == type)
      return;
    if (type == narrow)
      return use.set(narrowed(value));
    use.set(widened(value, use.getOwner()));
  }

  /// A wide form belongs to the layer of its reader: where that is computed again, so is this.
  Value widened(Value value, Operation *reader) {
    builder.setInsertionPoint(reader);
    return castOf(reader->getLoc(), value, f32);
  }

  Value castOf(Location loc, Value value, Type element) {
    Type type = cast<RankedTensorType>(value.getType()).clone(element);
    return graph::CastOp::create(builder, loc, type, value);
  }

  Value narrowed(Value value) {
    if (Value known = narrowForms.lookup(value))
      return known;
    Value result;
    auto reshape = value.getDefiningOp<graph::ReshapeOp>();
    if (reshape && !excepted.contains(value)) {
      // Rounded where it is computed, so that the two fuse.
      Value source = narrowed(reshape.getX());
      builder.setInsertionPointAfter(reshape);
      result = graph::ReshapeOp::create(builder, reshape.getLoc(),
                                        cast<RankedTensorType>(reshape.getType()).clone(narrow), source);
    } else {
      builder.setInsertionPointAfterValue(value);
      result = castOf(value.getLoc(), value, narrow);
    }
    return narrowForms[value] = result;
  }

  /// A chain of f32 ops lives in registers: a value of it that more than one op reads, or that is kept for the backward
  /// part, is stored, hence rounded, and everybody reads what is stored.
  void roundStored(Value value) {
    if (!isReal(value) || elementOf(value) != f32 || value.use_empty() ||
        (isStatistic(value) && !isKeptAsRows(value)) || excepted.contains(value) || wideByRule.contains(value) ||
        asked.contains(value) || dataOnly.contains(value) || vectors.contains(value))
      return;
    Operation *op = value.getDefiningOp();
    if (isa<graph::ConstantOp, graph::BroadcastOp>(op) || movesElements(op))
      return;
    if (!value.hasOneUse() || isKept(value))
      readNarrow(value, narrowed(value));
  }

  /// Whether the backward part reads a value of the forward part, or its elements in another place.
  bool isKept(Value value) const {
    return lossOp && value.getDefiningOp()->isBeforeInBlock(lossOp) &&
           llvm::any_of(value.getUsers(), [&](Operation *user) {
             return lossOp->isBeforeInBlock(user) || (movesElements(user) && isKept(user->getResult(0)));
           });
  }

  /// Whether what a column of single elements holds is kept as rows: a scatter by elements has that form.
  bool isKeptAsRows(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      return movesElements(user) &&
             (isStatistic(user->getResult(0)) ? isKeptAsRows(user->getResult(0)) : isKept(user->getResult(0)));
    });
  }

  /// All readers of `wide` but the cast that makes `stored` of it read `stored`.
  void readNarrow(Value wide, Value stored) {
    for (OpOperand &use : llvm::make_early_inc_range(wide.getUses())) {
      Operation *user = use.getOwner();
      if (user == stored.getDefiningOp())
        continue;
      if (isa<graph::CastOp>(user) && user->getResult(0).getType() == stored.getType()) {
        user->getResult(0).replaceAllUsesWith(stored);
      } else if (user->hasAttr(graph::kWide) && movesElements(user)) {
        use.set(markedWide(widened(stored, user)));
      } else if (movesElements(user)) {
        builder.setInsertionPoint(user);
        Operation *copy = builder.clone(*user);
        copy->setOperand(0, stored);
        setElement(copy->getResult(0), narrow);
        readNarrow(user->getResult(0), copy->getResult(0));
      } else if (isa<graph::ReduceSumOp>(user)) {
        use.set(stored);
      } else {
        Value again = widened(stored, user);
        use.set(user->hasAttr(graph::kWide) ? markedWide(again) : again);
      }
    }
  }

  func::FuncOp function;
  Block &block;
  Type narrow;
  PrecisionOverrides &overrides;
  Operation *lossOp = nullptr; ///< computes the loss
  OpBuilder builder;
  Type f32;
  DenseSet<Value> asked;
  DenseSet<Value> dataOnly;   ///< f32 because no parameter has a part in it
  DenseSet<Value> vectors;    ///< f32 because parameters alone have a part in it
  DenseSet<Value> excepted;   ///< f32 because the policy leaves their layer f32
  DenseSet<Value> wideByRule; ///< f32 because the op's row of the table says so
  DenseMap<Value, Value> narrowForms;
};

struct AssignStorage : impl::AssignStorageBase<AssignStorage> {
  using AssignStorageBase::AssignStorageBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    Type narrow = narrowTypeOf(precision, &getContext());
    Builder builder(&getContext());
    module->setAttr(graph::kPrecision, builder.getStringAttr(wordOf(precision.getValue())));
    std::vector<std::string> patterns(keep.begin(), keep.end());
    if (!narrow) {
      if (patterns.empty())
        return;
      module.emitError("a precision policy that keeps layers fp32 changes nothing in precision fp32");
      return signalPassFailure();
    }
    FailureOr<PrecisionOverrides> overrides = PrecisionOverrides::parse(module.getLoc(), patterns);
    if (failed(overrides))
      return signalPassFailure();
    if (!patterns.empty())
      module->setAttr(kKeptFp32, builder.getStrArrayAttr(llvm::to_vector_of<StringRef>(patterns)));
    for (auto function : module.getOps<func::FuncOp>())
      if (!graph::isEntry(function, graph::Entry::Update) &&
          failed(StorageAssigner(function, narrow, *overrides).run()))
        return signalPassFailure();
    if (failed(overrides->expectAllUsed(module.getLoc())))
      return signalPassFailure();
  }
};
} // namespace
} // namespace ztc
