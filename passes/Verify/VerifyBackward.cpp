#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Rates.h"
#include "passes/Verify/Checks.h"
#include "passes/Verify/Passes.h"

#define DEBUG_TYPE "ztc-verify-backward"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_VERIFYBACKWARD
#include "passes/Verify/Passes.h.inc"

namespace {

/// A parameter that is trained.
struct Trainable {
  StringRef name;
  Type type;
  bool isMatrix; ///< whether Muon updates it
};

SmallVector<Trainable> trainableParameters(func::FuncOp function) {
  SmallVector<Trainable> result;
  for (unsigned index : graph::argumentsWithRole(function, graph::Role::Parameter))
    if (!graph::isFrozen(function, index))
      result.push_back({graph::argString(function, index, graph::kName), function.getArgumentTypes()[index],
                        bool(function.getArgAttr(index, graph::kChangeFactor))});
  return result;
}

struct VerifyBackward : impl::VerifyBackwardBase<VerifyBackward> {
  void runOnOperation() override {
    markAllAnalysesPreserved(); // it only looks: MLIR need not verify the module again
    ModuleOp module = getOperation();
    using enum graph::Entry;
    SmallVector<graph::Entry> entries{Microstep, Update, Eval, Generate};
    auto decode = graph::findEntry(module, graph::Entry::Decode);
    if (decode)
      entries.push_back(Decode);
    auto rows = graph::findEntry(module, graph::Entry::DecodeRows);
    if (rows)
      entries.push_back(DecodeRows);
    if (failed(checkFunctions(module, "B1", entries)))
      return signalPassFailure();
    for (graph::Entry entry : entries)
      if (failed(checkOnlyGraphOps(graph::findEntry(module, entry), "B1")))
        return signalPassFailure();
    auto microstep = graph::findEntry(module, graph::Entry::Microstep);
    SmallVector<Trainable> trainable = trainableParameters(microstep);
    if (failed(verifyMicrostep(microstep, trainable)) ||
        failed(verifyUpdate(graph::findEntry(module, graph::Entry::Update), trainable)) ||
        failed(verifyEval(graph::findEntry(module, graph::Entry::Eval))) ||
        failed(verifyGenerate(graph::findEntry(module, graph::Entry::Generate), rows ? rows : decode)) ||
        (decode && failed(verifyDecode(decode))) || (rows && failed(verifyDecode(rows))))
      signalPassFailure();
  }

  /// The rank-0 type of the function's first result, whatever that result is.
  static Type scalarLike(func::FuncOp function) {
    Type element = function.getNumResults() ? getElementTypeOrSelf(function.getResultTypes()[0])
                                            : Float32Type::get(function.getContext());
    return RankedTensorType::get({}, element);
  }

  static bool isPacked(func::FuncOp function) {
    return !graph::argumentsWithRole(function, graph::Role::DocumentStarts).empty();
  }

  static bool isWeighted(func::FuncOp function) {
    return !graph::argumentsWithRole(function, graph::Role::LossWeights).empty();
  }

  /// How many positions its second argument holds.
  static int64_t positionsOf(func::FuncOp function) {
    auto position = dyn_cast<RankedTensorType>(function.getArgumentTypes()[1]);
    return position && position.getRank() == 1 ? position.getDimSize(0) : 1;
  }

  LogicalResult verifyMicrostep(func::FuncOp function, ArrayRef<Trainable> trainable) {
    SmallVector<ExpectedResult> results{{"loss", "", scalarLike(function)}};
    for (const Trainable &parameter : trainable)
      results.push_back({"gradient", parameter.name, parameter.type});
    SmallVector<StringRef> roles{"tokens", "targets", "step"};
    if (!graph::argumentsWithRole(function, graph::Role::FirstToken).empty())
      roles.push_back("first_token");
    if (isPacked(function))
      roles.push_back("document_starts");
    if (isWeighted(function))
      roles.push_back("loss_weights");
    roles.push_back("parameter...");
    return failure(failed(checkRoles(function, "B2", roles)) || failed(checkResults(function, "B2", results)));
  }

  LogicalResult verifyUpdate(func::FuncOp function, ArrayRef<Trainable> trainable) {
    const SmallVector<graph::OptimizerState> states = graph::statesOf(getOperation());
    SmallVector<StringRef> kinds{"parameter", "gradient"};
    for (const graph::OptimizerState &state : states)
      kinds.push_back(state.name);
    auto has = [&](const Trainable &parameter, StringRef kind) {
      return kind == "parameter" || kind == "gradient" ||
             graph::optimizerOf(getOperation(), parameter.isMatrix).state(kind);
    };
    std::vector<std::string> repeated;
    for (StringRef kind : kinds)
      repeated.push_back(kind.str() + "...");
    SmallVector<StringRef> expected{"step"};
    expected.append(repeated.begin(), repeated.end());
    if (failed(checkRoles(function, "B3", expected)))
      return failure();
    SmallVector<ExpectedResult> results;
    unsigned index = 1;
    for (StringRef kind : kinds)
      for (const Trainable &parameter : trainable) {
        if (!has(parameter, kind))
          continue;
        if (index >= function.getNumArguments() || graph::argumentKind(function, index) != kind ||
            graph::argString(function, index, graph::kName) != parameter.name ||
            function.getArgumentTypes()[index] != parameter.type)
          return function.emitOpError("B3: argument ")
                 << index << " should be the " << kind << " of '" << parameter.name << "'";
        ++index;
        if (kind != "gradient")
          results.push_back({kind, parameter.name, parameter.type});
      }
    Builder builder(function.getContext());
    results.push_back({"gradient_norm", "", RankedTensorType::get({}, builder.getF32Type())});
    results.push_back({"finite", "", RankedTensorType::get({}, builder.getI1Type())});
    return checkResults(function, "B3", results);
  }

  /// One loss, or one of each sequence.
  LogicalResult verifyEval(func::FuncOp function) {
    SmallVector<StringRef> roles{"tokens", "targets"};
    if (isPacked(function))
      roles.push_back("document_starts");
    if (isWeighted(function))
      roles.push_back("loss_weights");
    roles.push_back("parameter...");
    if (failed(checkRoles(function, "B4", roles)))
      return failure();
    auto expected = cast<RankedTensorType>(scalarLike(function));
    if (function.getNumResults()) {
      auto loss = dyn_cast<RankedTensorType>(function.getResultTypes()[0]);
      ArrayRef<int64_t> tokens = cast<RankedTensorType>(function.getArgumentTypes()[0]).getShape();
      if (loss && loss.getRank() == 1 && tokens.size() == 2)
        expected = expected.clone(tokens.take_front());
    }
    return checkResults(function, "B4", {{"loss", "", expected}});
  }

  LogicalResult verifyGenerate(func::FuncOp function, func::FuncOp decode) {
    return failure(failed(checkRoles(function, "B5", {"tokens", "position", "parameter...", "cache..."})) ||
                   failed(checkLogitsAndCaches(function, "B5", decode)));
  }

  LogicalResult verifyDecode(func::FuncOp function) {
    return failure(failed(checkRoles(function, "B6", {"tokens", "position", "parameter...", "cache..."})) ||
                   failed(checkLogitsAndCaches(function, "B6", function)));
  }

  /// (positions, vocabulary) logits, then the caches that @decode_rows takes, or @decode, where there is one.
  LogicalResult checkLogitsAndCaches(func::FuncOp function, StringRef constraint, func::FuncOp decode) {
    auto vocabulary = getOperation()->getAttrOfType<IntegerAttr>(graph::kVocabulary);
    if (!vocabulary)
      return getOperation().emitError() << constraint << ": the module has no graph.vocabulary";
    Type element = cast<RankedTensorType>(scalarLike(function)).getElementType();
    SmallVector<ExpectedResult> results{
        {"logits", "", RankedTensorType::get({positionsOf(function), vocabulary.getInt()}, element)}};
    if (decode)
      for (unsigned index : graph::argumentsWithRole(decode, graph::Role::Cache))
        results.push_back({"cache", graph::argString(decode, index, graph::kName), decode.getArgumentTypes()[index]});
    return checkResults(function, constraint, results);
  }
};
} // namespace
} // namespace ztc
