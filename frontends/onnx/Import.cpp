#include "frontends/onnx/Import.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/ArgumentAttributes.h"
#include "frontends/onnx/Aliases.h"
#include "frontends/onnx/Budget.h"
#include "frontends/onnx/BuilderNames.h"
#include "frontends/onnx/ExplainWeights.h"
#include "frontends/onnx/FoldedFunctions.h"
#include "frontends/onnx/FoldedPairs.h"
#include "frontends/onnx/FoldedPositions.h"
#include "frontends/onnx/FoldedStatistics.h"
#include "frontends/onnx/FoldedTables.h"
#include "frontends/onnx/LayerIdioms.h"
#include "frontends/onnx/LayerNumbers.h"
#include "frontends/onnx/PaddingRow.h"
#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/PickedRows.h"
#include "frontends/onnx/QuantizedNodes.h"
#include "frontends/onnx/Raise.h"
#include "frontends/onnx/ResolveBranches.h"
#include "frontends/onnx/RunningSums.h"
#include "frontends/onnx/Sequences.h"
#include "frontends/onnx/SizeAdvice.h"
#include "frontends/onnx/TableLimits.h"
#include "frontends/onnx/Ties.h"
#include "frontends/onnx/UnreadTensors.h"
#include "frontends/onnx/WeightFacts.h"
#include "frontends/onnx/Weights.h"
#include "mlir/IR/Verifier.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Format/QuantizedMatrices.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"
#include <set>

using namespace mlir;

namespace ztc {
namespace importer {
namespace {

/// config.json beside the model; where none is there, beside the weights. It may tell limits and what the family folds;
/// nothing is built from it.
nlohmann::json readConfig(llvm::StringRef modelPath, llvm::StringRef weights, std::vector<std::string> &notes) {
  llvm::SmallString<256> path(llvm::sys::path::parent_path(modelPath));
  llvm::sys::path::append(path, "config.json");
  if (!weights.empty() && !llvm::sys::fs::exists(path)) {
    path = llvm::sys::fs::is_directory(weights) ? weights : llvm::sys::path::parent_path(weights);
    llvm::sys::path::append(path, "config.json");
  }
  StatusOr<std::string> buffer = readWholeFile(std::string(path));
  if (!buffer.isOk())
    return nlohmann::json::object();
  auto json = parseJson(*buffer);
  if (json.is_object())
    return json;
  notes.push_back(std::string(path) + " is not a JSON object, or one of impossible depth: it is passed over");
  return nlohmann::json::object();
}

int64_t positionLimitOf(const nlohmann::json &config, std::vector<std::string> &notes) {
  for (const char *key : {"max_position_embeddings", "n_positions"})
    if (auto found = config.find(key); found != config.end() && !found->is_null()) {
      if (found->is_number_integer() && found->get<int64_t>() > 0)
        return found->get<int64_t>();
      notes.push_back(std::string("config.json: ") + key + " is not a number above 0, so no position limit is known");
    }
  return 0;
}

/// What a report says about inputs and outputs; built before the unneeded part of the graph is dropped.
class PortNotes {
public:
  PortNotes(const Model &model, const std::string &logits) : readByLoss(inputsOfLoss(model)) {
    for (const GraphValue &output : model.outputs) {
      bool isScalar = output.hasShape && output.shape.empty();
      std::string role = output.name == logits ? "logits" : isScalar ? "loss" : "other";
      outputs.push_back({output.name, role, output.name == logits ? "trained" : "not used", ""});
    }
  }

  void describe(const Model &model, llvm::StringMap<InputBinding> &roles, ImportReport &report) const {
    report.outputs = outputs;
    for (const GraphValue &input : model.inputs) {
      InputBinding &binding = roles[input.name];
      if (binding.role == InputRole::Unused && readByLoss.contains(input.name))
        binding.role = InputRole::Labels;
      report.inputs.push_back(
          {input.name, roleName(binding.role).str(), bindingText(binding.role).str(), binding.proof});
      if (binding.role == InputRole::Labels)
        report.notes.push_back("the labels input '" + input.name +
                               "' is not used: ztc computes the loss itself, from the labels of the data");
    }
    for (const ImportReport::Port &output : outputs)
      if (output.role == "loss")
        report.notes.push_back("the loss output '" + output.name + "' is ignored: ztc computes the loss itself");
  }

private:
  static llvm::StringRef bindingText(InputRole role) {
    switch (role) {
    case InputRole::Tokens:
      return "rows of the data";
    case InputRole::AttentionMask:
      return "ones";
    case InputRole::Mask:
      return "causal";
    case InputRole::Positions:
      return "0 to S - 1";
    case InputRole::Past:
      return "length 0";
    case InputRole::SequenceLength:
      return "S - 1";
    case InputRole::TotalLength:
      return "S";
    case InputRole::Zeros:
      return "0";
    case InputRole::LossWeights:
      return "weights of the labels in the data";
    default:
      return "not used";
    }
  }

  llvm::StringSet<> readByLoss;
  std::vector<ImportReport::Port> outputs;
};

/// What a graph is called: its folder, where that is a model's with config.json, for files in such have names as
/// "model.onnx"; else the file without its ending.
std::string nameOf(llvm::StringRef path) {
  llvm::SmallString<256> config(path);
  (void)llvm::sys::fs::make_absolute(config); // without a working directory the path itself
  llvm::sys::path::remove_filename(config);
  const std::string folder = llvm::sys::path::filename(config).str();
  llvm::sys::path::append(config, "config.json");
  return !folder.empty() && llvm::sys::fs::exists(config) ? folder : llvm::sys::path::stem(path).str();
}

/// model_type, of the text model where a multi-modal config has one; or "".
std::string familyOf(const nlohmann::json &config) {
  const nlohmann::json &text = config.contains("text_config") ? config["text_config"] : config;
  auto type = text.find("model_type");
  return type != text.end() && type->is_string() ? type->get<std::string>() : "";
}

class Importer {
public:
  Importer(MLIRContext &context, llvm::StringRef path, const ImportOptions &options, ImportReport &report)
      : context(context), path(path), options(options), report(report) {}

  FailureOr<OwningOpRef<ModuleOp>> run() {
    context.loadDialect<graph::GraphDialect, func::FuncDialect>();
    report.model = path;
    std::string error;
    model = options.message.empty() ? readModel(path, error) : parseModel(options.message, path, error);
    if (!model)
      return fail(error);
    model->budget = std::make_shared<EvaluationBudget>(
        EvaluationLimits{.bytes = options.evaluationBytes, .operations = options.evaluationOperations});
    report.opset = model->opset;
    report.producer = model->exporter;
    for (const Node &node : model->nodes)
      ++report.onnxOps[node.signature];
    if (!readQuantizedNodes(*model, error))
      return fail(error);
    report.notes.insert(report.notes.end(), model->notes.begin(), model->notes.end());
    Liveness fromTokens, liveness;
    if (!takeRoles(fromTokens, error))
      return fail(error);
    liveness.roles = fromTokens.roles;
    Names names(*model, checkpoint);
    if (!findLiveness(*model, [](const Initializer &) { return false; }, fromTokens, error))
      return fail(error);
    // Another frontend's graph has the checkpoint's names.
    FoundParameters found =
        findParameters(*model, names, fromTokens, options.message.empty() ? options.weights : std::string());
    if (!findLiveness(
            *model, [&](const Initializer &initializer) { return found.names.contains(initializer.name); }, liveness,
            error))
      return fail(error);
    if (failed(bind(liveness)))
      return failure();
    if (!takeBranches(liveness, error))
      return fail(error);

    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
    Emitter emitter(*module, *model, names, liveness, binding, report.isSymbolic, report);
    if (failed(emit(emitter, liveness)))
      return failure();
    auto ties = config.find("tie_word_embeddings");
    restoreTies(emitter, *model, ties != config.end() && ties->is_boolean() && ties->get<bool>(), report);
    if (options.weights.empty() && options.message.empty())
      joinTransposedCopies(emitter, *model, names, report);
    if (failed(checkUntrained(emitter, names, found.constants)))
      return failure();
    // Another frontend reads the checkpoint's own tensors and folds nothing.
    if (options.weights.empty() && options.message.empty())
      if (std::string problem = checkConstants(found, *model, names, options.freeze, report); !problem.empty())
        return fail(problem);
    if (options.weights.empty() && options.message.empty() &&
        failed(undoFolded(emitter, WeightFacts(*model, names, familyOf(config)), path, options.freeze, report)))
      return failure();
    if (!options.weights.empty() && options.message.empty() &&
        failed(explainWeights(emitter, *model, names, found, options, familyOf(config), report)))
      return failure();
    if (failed(attachSources(emitter, *model, options, report)))
      return failure();
    auto padding = config.find("pad_token_id");
    bool hasPadding = padding != config.end() && padding->is_number_integer();
    if (failed(markPaddingRows(emitter, *model, options.paddingToken, familyOf(config),
                               hasPadding ? std::optional<int64_t>(padding->get<int64_t>()) : std::nullopt, report)))
      return failure();
    raiseIdioms(emitter.function(), report.idioms);
    describe(*module, emitter);
    if (failed(verify(*module)))
      return failure();
    return module;
  }

private:
  LogicalResult fail(const llvm::Twine &message) {
    return emitError(UnknownLoc::get(&context)) << path << ": " << message;
  }

  /// Finds the logits and the role of each input, and drops the nodes that the logits do not need.
  bool takeRoles(Liveness &liveness, std::string &error) {
    if (!openCheckpoint(error))
      return false;
    RequestedRoles requested;
    for (const std::string &text : options.inputRoles)
      if (!parseRequestedRole(text, requested, error))
        return false;
    const GraphValue *logits = findLogits(*model, requested, error);
    if (!logits)
      return false;
    foldSequences(*model);
    readAliases(*model);
    restoreBuilderNames(*model, checkpoint);
    PortNotes notes(*model, logits->name);
    keepOnly(*model, std::string(logits->name));
    spreadPickedRows(*model);
    std::vector<std::string> saidLater; // bind() reads it again
    const int64_t positionLimit = positionLimitOf(readConfig(path, options.weights, saidLater), saidLater);
    if (!restoreFoldedTables(*model, options.weights, positionLimit, report.notes, error) || !restoreFunctions(error) ||
        !findRoles(*model, requested, liveness.roles, error))
      return false;
    keepRunningSums(*model);
    notes.describe(*model, liveness.roles, report);
    for (const auto &role : liveness.roles)
      takesLossWeights |= role.second.role == InputRole::LossWeights;
    return true;
  }

  /// Another frontend's graph holds nothing that was computed from parameters.
  bool restoreFunctions(std::string &error) {
    if (!options.weightRules.function || !options.message.empty())
      return true;
    const SafetensorsCollection *files = checkpointFiles ? &*checkpointFiles : nullptr;
    restoreFoldedStatistics(*model, Names(*model, checkpoint), files, report.notes);
    restoreFoldedPairs(*model, Names(*model, checkpoint), files, report.notes);
    restoreFoldedPositions(*model, Names(*model, checkpoint), files, report.notes);
    return restoreFoldedFunctions(*model, Names(*model, checkpoint), files, report.notes, error);
  }

  /// What --weights gives; a file that cannot be read is told later. False where its weights are in fewer bits.
  bool openCheckpoint(std::string &error) {
    if (options.weights.empty())
      return true;
    StatusOr<SafetensorsCollection> files = SafetensorsCollection::open(options.weights);
    if (!files.isOk())
      return true;
    const std::string method = quantizationConfigOf(options.weights).method;
    if (options.message.empty() && !method.empty()) {
      error = "--weights=" + options.weights + " has weights in fewer bits (quant_method " + method +
              "), which are not read into an ONNX graph: compile that folder itself, or give full weights";
      return false;
    }
    checkpointFiles = std::move(*files);
    for (const auto &file : checkpointFiles->files())
      for (const SafetensorsTensor &tensor : file->tensors())
        checkpoint.push_back(tensor.name);
    return true;
  }

  /// Batch and sequence: what the graph fixes, what is asked for, or the defaults; within the position limit.
  LogicalResult bind(const Liveness &liveness) {
    const GraphValue *tokens = nullptr;
    for (const GraphValue &input : model->inputs)
      if (liveness.roles.lookup(input.name).role == InputRole::Tokens)
        tokens = &input;
    config = readConfig(path, options.weights, report.notes);
    report.positionLimit = options.positionLimit ? options.positionLimit : positionLimitOf(config, report.notes);
    int64_t fixedBatch = tokens->shape[0], fixedSequence = tokens->shape[1];
    report.isSymbolic = fixedBatch < 0 || fixedSequence < 0;
    auto choose = [&](int64_t fixed, uint64_t wanted, int64_t otherwise, const char *what,
                      int64_t &result) -> LogicalResult {
      if (fixed >= 0 && wanted && fixed != int64_t(wanted))
        return fail("was exported with " + llvm::Twine(what) + " " + llvm::Twine(fixed) + ", not " +
                    llvm::Twine(wanted));
      result = fixed >= 0 ? fixed : wanted ? int64_t(wanted) : otherwise;
      return success();
    };
    constexpr int64_t kUsualSequence = 2048, kLongestProbe = int64_t(1) << 20;
    std::optional<TableLimit> table;
    // A config.json, and another frontend's graph, say it themselves.
    if (!report.positionLimit && options.message.empty() && fixedSequence < 0)
      table = findTableLimit(
          *model, liveness,
          {fixedBatch < 0 ? 1 : fixedBatch, std::clamp<int64_t>(int64_t(options.seq), kUsualSequence, kLongestProbe)});
    if (table)
      report.positionLimit = table->sequence;
    int64_t defaultSequence =
        report.positionLimit ? std::min<int64_t>(report.positionLimit, kUsualSequence) : kUsualSequence;
    auto otherwise = [&](unsigned dimension, int64_t usual) {
      int64_t fixed = fixedByLogits(*model, liveness, dimension);
      return fixed > 0 ? fixed : usual;
    };
    if (failed(choose(fixedBatch, options.batch, otherwise(0, 1), "batch", binding.batch)) ||
        failed(choose(fixedSequence, options.seq, otherwise(1, defaultSequence), "sequence", binding.sequence)))
      return failure();
    if (table && binding.sequence > table->sequence)
      return fail("--seq=" + llvm::Twine(table->sequence) + " at most, not " + llvm::Twine(binding.sequence) + ": " +
                  importer::describe(*table));
    if (report.positionLimit && binding.sequence > report.positionLimit)
      return fail("sequence " + llvm::Twine(binding.sequence) + " is above the position limit " +
                  llvm::Twine(report.positionLimit) + " of the model");
    if (binding.batch < 1 || binding.sequence < 1 || binding.batch * binding.sequence > INT32_MAX)
      return fail("batch " + llvm::Twine(binding.batch) + " and sequence " + llvm::Twine(binding.sequence) +
                  " are out of range");
    report.batch = binding.batch;
    report.seq = binding.sequence;
    if (report.isSymbolic && (!options.batch || !options.seq))
      report.notes.push_back("batch and sequence are free in the graph: taken as " + std::to_string(binding.batch) +
                             " and " + std::to_string(binding.sequence));
    return success();
  }

  /// With sizes bound, what an `If` does not choose is dropped.
  bool takeBranches(Liveness &liveness, std::string &error) {
    if (!resolveBranches(*model, liveness, binding, error))
      return true;
    if (!error.empty())
      return false;
    keepOnly(*model, std::string(model->outputs[0].name));
    Liveness chosen;
    chosen.roles = liveness.roles;
    auto isParameter = [&](const Initializer &initializer) { return liveness.parameters.contains(initializer.name); };
    if (!findLiveness(*model, isParameter, chosen, error))
      return false;
    liveness = std::move(chosen);
    return true;
  }

  /// A message about sizes that do not fit says what is known of the reason and what to do.
  LogicalResult emit(Emitter &emitter, const Liveness &liveness) {
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (isAboutSizes(diagnostic.str()))
        diagnostic << reasonOfSizes(*model, liveness, binding);
      return failure(); // others go on with it
    });
    return emitter.run();
  }

  /// Parameters of the exported module, which dynamo's signature lists, that no parameter of the graph stands for.
  /// Where a checkpoint has them, it is asked instead.
  LogicalResult checkUntrained(Emitter &emitter, const Names &names, llvm::ArrayRef<const Initializer *> constants) {
    llvm::StringSet<> known, trained;
    for (const std::string &name : checkpoint)
      known.insert(name);
    for (const Parameter &parameter : emitter.parameters()) {
      trained.insert(parameter.name);
      for (const std::string &tied : parameter.tied)
        trained.insert(tied);
    }
    std::set<std::string> untrained;
    for (const auto &entry : model->parameterTargets) {
      llvm::StringRef target = entry.second;
      auto isKnown = [&](llvm::StringRef name) { return known.contains(name) || trained.contains(name); };
      bool isTrained = isKnown(target);
      for (size_t dot = target.find('.'); !isTrained && dot != llvm::StringRef::npos; dot = target.find('.', dot + 1))
        isTrained = isKnown(target.substr(dot + 1)); // without a wrapper's prefix
      if (!isTrained)
        untrained.insert(target.str());
    }
    if (!untrained.empty())
      for (const std::string &name : checkpoint)
        untrained.erase(model->targetOf(name));
    tieShared(emitter, *model, names, untrained, report);
    std::vector<std::string> undeclared;
    for (const Parameter &parameter : emitter.parameters())
      if (!names.isDeclared(parameter.name))
        undeclared.push_back(parameter.name);
    if (options.weights.empty() && !model->parameterTargets.empty() && untrained.empty() && !undeclared.empty())
      if (std::string problem = noteComputed(undeclared, options.freeze, report); !problem.empty())
        return fail(problem);
    std::string problem = noteUntrained(std::vector<std::string>(untrained.begin(), untrained.end()), trained,
                                        constantOfValues(*model, constants), options.freeze, report);
    if (problem.empty())
      return success();
    const bool isNameless = llvm::any_of(emitter.parameters(), [&](const Parameter &parameter) {
      return parameter.initializer->quantized && !names.isDeclared(parameter.name);
    });
    return fail(problem + (isNameless ? ". The graph's weights in fewer bits have neither names nor modules: the tool "
                                        "that quantised it left out what the exporter said of its nodes; compile the "
                                        "graph that it read, or the folder"
                                      : ""));
  }

  /// Module attributes, and what the report says about the result.
  void describe(ModuleOp module, Emitter &emitter) {
    func::FuncOp forward = emitter.function();
    report.vocabulary = cast<RankedTensorType>(forward.getResultTypes()[0]).getShape().back();
    OpBuilder builder(&context);
    ArgumentAttributes marks(forward);
    std::vector<NamedShape> named;
    for (const Parameter &parameter : emitter.parameters())
      named.push_back({parameter.name, cast<RankedTensorType>(parameter.argument.getType()).getShape()});
    for (auto [parameter, layer] : llvm::zip_equal(emitter.parameters(), layersOf(named)))
      if (layer >= 0) {
        report.layers = std::max(report.layers, layer + 1);
        marks.set(parameter.argument.getArgNumber(), graph::kLayer, builder.getI64IntegerAttr(layer));
      }
    marks.store();
    for (Operation &op : forward.getBody().front())
      ++report.graphOps[op.getName().getStringRef().str()];
    report.layerIdioms = layerIdioms(forward);
    auto number = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
    module->setAttr("graph.model", builder.getStringAttr(options.name.empty() ? nameOf(path) : options.name));
    module->setAttr(graph::kBatch, number(report.batch));
    module->setAttr(graph::kSequence, number(report.seq));
    module->setAttr(graph::kVocabulary, number(report.vocabulary));
    module->setAttr(graph::kPositionLimit, number(report.positionLimit));
    module->setAttr(graph::kLayers, number(report.layers));
    if (takesLossWeights)
      module->setAttr(graph::kLossWeights, builder.getUnitAttr());
    if (report.freezesUnread)
      for (const Parameter &parameter : emitter.parameters())
        report.freezesParameters |= llvm::Regex(options.freeze).match(parameter.name);
  }

  MLIRContext &context;
  std::string path;
  const ImportOptions &options;
  ImportReport &report;
  std::unique_ptr<Model> model;
  std::optional<SafetensorsCollection> checkpointFiles;
  std::vector<std::string> checkpoint; ///< names of the tensors that --weights gives
  Binding binding;
  nlohmann::json config;
  bool takesLossWeights = false; ///< an input is what the loss of each label is multiplied by
};

} // namespace
} // namespace importer

FailureOr<OwningOpRef<ModuleOp>> importOnnx(MLIRContext &context, llvm::StringRef path, const ImportOptions &options,
                                            ImportReport &report) {
  return importer::Importer(context, path, options, report).run();
}

} // namespace ztc
