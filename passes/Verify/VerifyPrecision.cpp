#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Rates.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Precision/Policy.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-precision"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYPRECISION
#include "passes/Verify/Passes.h.inc"

namespace {

Type elementOf(Value value) {
  return getElementTypeOrSelf(value.getType());
}
bool isReal(Value value) {
  return isa<FloatType>(elementOf(value)) && !graph::isFp8(value.getType()); // codes stand for numbers
}

struct VerifyPrecision : impl::VerifyPrecisionBase<VerifyPrecision> {
  Type narrow, f32;
  bool isFp8Precision = false;

  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    ModuleOp module = getOperation();
    f32 = Float32Type::get(&getContext());
    auto word = module->getAttrOfType<StringAttr>(graph::kPrecision);
    const auto precision = word ? fromWord<StoragePrecision>(word.getValue()) : std::nullopt;
    if (!precision) {
      module.emitError("N1: ") << graph::kPrecision << " is not fp32, bf16, fp16 or fp8";
      return signalPassFailure();
    }
    narrow = narrowTypeOf(*precision, &getContext());
    isFp8Precision = precision == StoragePrecision::Fp8;
    PrecisionOverrides overrides = PrecisionOverrides::of(module);
    llvm::StringMap<Type> parameters;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (failed(checkParameters(function, overrides, parameters)) ||
          failed(graph::isEntry(function, graph::Entry::Update) ? checkUpdate(function)
                                                                : checkBody(function, overrides)))
        return signalPassFailure();
    }
  }

  /// (N3)
  LogicalResult checkParameters(func::FuncOp function, PrecisionOverrides &overrides, llvm::StringMap<Type> &known) {
    for (unsigned index : graph::argumentsWithRole(function, graph::Role::Parameter)) {
      Type element = elementOf(function.getArgument(index));
      StringRef name = graph::argString(function, index, graph::kName);
      Type expected = narrow && !overrides.keepsParameter(function, index) ? narrow : f32;
      Type before = known.try_emplace(name, element).first->second;
      if (element != expected || before != element)
        return function.emitOpError("N3: parameter '") << name << "' is " << element << ", expected " << expected;
    }
    for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
      const std::optional<graph::ResultKind> kind = graph::resultOf(function, index);
      const bool isWide =
          kind == graph::ResultKind::Loss || kind == graph::ResultKind::Gradient || kind == graph::ResultKind::Logits;
      if (isWide && getElementTypeOrSelf(type) != f32)
        return function.emitOpError("N3: result ")
               << index << " (" << graph::stringifyResultKind(*kind) << ") is " << type;
    }
    return success();
  }

  LogicalResult checkBody(func::FuncOp function, PrecisionOverrides &overrides) {
    Block &body = function.getBody().front();
    Operation *lossOp = nullptr;
    for (auto [index, value] : llvm::enumerate(body.getTerminator()->getOperands()))
      if (graph::resultOf(function, index) == graph::ResultKind::Loss)
        lossOp = resolveAlias(value).source.getDefiningOp();
    const DenseSet<Value> dataOnly = dataOnlyValues(body), vectors = parameterVectors(function);
    auto isDataOnly = [&](Value value) { return dataOnly.contains(value); };
    for (Operation &op : body.without_terminator()) {
      if (llvm::any_of(op.getResults(), isDataOnly))
        continue;
      bool excepted = overrides.hasOp(&op);
      bool isVector = op.getNumResults() == 1 && vectors.contains(op.getResult(0));
      if (failed(checkTypes(op)) || failed(checkRow(op, excepted)) || failed(checkCasts(op)) ||
          (!isVector && failed(checkKept(op, excepted, lossOp))))
        return failure();
    }
    return success();
  }

  /// (N1)
  LogicalResult checkTypes(Operation &op) {
    for (Value value : op.getResults())
      if (graph::isFp8(value.getType()) && !isFp8Precision)
        return op.emitOpError("N1: gives fp8 codes in another precision than fp8: ") << value.getType();
    for (Value value : op.getResults())
      if (isReal(value) && elementOf(value) != f32 && elementOf(value) != narrow)
        return op.emitOpError("N1: gives ") << value.getType() << " in precision " << (narrow ? narrow : f32);
    return success();
  }

  /// (N2)
  LogicalResult checkRow(Operation &op, bool excepted) {
    auto mixed = dyn_cast<PrecisionOpInterface>(op);
    // f32 throughout
    const bool isWide = op.hasAttr(graph::kWide) && (!isa<graph::MatmulOp>(op) || op.hasAttr(graph::kWideFactors));
    if (!narrow || isa<graph::CastOp>(op) || isWide || (!mixed && !excepted))
      return success(); // one type: that is what the ops' own verifiers ask for
    PrecisionRule rule = mixed ? mixed.getPrecisionRule() : PrecisionRule();
    auto check = [&](Value value, Storage storage, StringRef what) -> LogicalResult {
      if (!isReal(value) || storage == Storage::Free || storage == Storage::Asked)
        return success();
      Type expected = storage == Storage::Wide || excepted ? f32 : narrow;
      if (elementOf(value) != expected)
        return op.emitOpError("N2: ") << what << " is " << value.getType() << ", the policy says " << expected;
      return success();
    };
    for (auto [index, operand] : llvm::enumerate(op.getOperands()))
      if (failed(check(operand, mixed ? rule.operands[index] : Storage::Wide, "an operand")))
        return failure();
    for (auto [index, result] : llvm::enumerate(op.getResults()))
      if (failed(check(result, mixed ? rule.results[index] : Storage::Wide, "a result")))
        return failure();
    return success();
  }

  /// (N5)
  LogicalResult checkCasts(Operation &op) {
    auto cast = dyn_cast<graph::CastOp>(op);
    if (!cast || !isReal(cast.getX()) || elementOf(cast.getY()) != narrow)
      return success();
    if (auto before = cast.getX().getDefiningOp<graph::CastOp>(); before && elementOf(before.getX()) == narrow)
      return op.emitOpError("N5: rounds what was widened from the same type");
    for (Operation *user : cast.getX().getUsers())
      if (user != &op && isa<graph::CastOp>(user) && user->getResult(0).getType() == cast.getType())
        return op.emitOpError("N5: rounds a value that is rounded to this type elsewhere too");
    return success();
  }

  /// (N6)
  LogicalResult checkKept(Operation &op, bool excepted, Operation *lossOp) {
    // What repeats a value is written again where it is read (DuplicateBroadcasts).
    if (!narrow || excepted || op.hasAttr(graph::kWide) || !lossOp || !op.isBeforeInBlock(lossOp) ||
        isa<graph::ConstantOp, graph::BroadcastOp>(op))
      return success();
    auto mixed = dyn_cast<PrecisionOpInterface>(op);
    for (auto [index, result] : llvm::enumerate(op.getResults())) {
      if (elementOf(result) != f32 || isStatistic(result) ||
          (mixed && mixed.getPrecisionRule().results[index] == Storage::Wide))
        continue;
      for (Operation *user : result.getUsers())
        if (lossOp->isBeforeInBlock(user)) {
          InFlightDiagnostic error = op.emitOpError("N6: gives an f32 activation that the backward part reads: ");
          error << result.getType();
          error.attachNote(user->getLoc()) << "it is read here";
          return error;
        }
    }
    return success();
  }

  /// (N4)
  LogicalResult checkUpdate(func::FuncOp function) {
    llvm::StringMap<Type> types; // by kind and name
    for (unsigned index = 0; index < function.getNumArguments(); ++index)
      types[(graph::argumentKind(function, index) + " " + graph::argString(function, index, graph::kName)).str()] =
          elementOf(function.getArgument(index));
    Type states;
    const bool hasMasters = !graph::argumentsWithRole(function, graph::Role::Master).empty();
    for (unsigned index : graph::argumentsWithRole(function, graph::Role::Parameter)) {
      std::string name = graph::argString(function, index, graph::kName).str();
      auto typeOf = [&](StringRef role) { return types.lookup((role + " " + name).str()); };
      Type parameter = typeOf("parameter"), master;
      if (parameter.isBF16())
        master = IntegerType::get(&getContext(), 16);
      if (parameter.isF16())
        master = f32;
      if (typeOf("gradient") != parameter)
        return function.emitOpError("N4: the gradient of '") << name << "' has not the type of the parameter";
      // Without masters bf16 weights are rounded as they are updated.
      const bool isWithout = parameter.isBF16() && !hasMasters;
      if (typeOf("master") != master && !isWithout)
        return function.emitOpError("N4: the master of '") << name << "' does not fit a parameter of " << parameter;
      const bool isMatrix = bool(function.getArgAttr(index, graph::kChangeFactor));
      for (const graph::OptimizerState &state : graph::optimizerOf(getOperation(), isMatrix).states) {
        Type type = typeOf(state.name);
        if (auto block = dyn_cast_or_null<graph::Block8Type>(type)) {
          if (!function.getArgAttr(index, graph::kBlockStates) || block.getIsSigned() != state.isSigned)
            return function.emitOpError("N4: the state '") << state.name << "' of '" << name << "' is " << type;
          continue;
        }
        if (!type || (type != f32 && !type.isBF16()) || (states && states != type))
          return function.emitOpError("N4: the states of '") << name << "' have not one type of f32 and bf16";
        states = type;
      }
    }
    return success();
  }
};
} // namespace
} // namespace ztc
