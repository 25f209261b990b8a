#include "frontends/onnx/WeightFacts.h"
#include "frontends/onnx/ExplainWeights.h"
#include "llvm/Support/Regex.h"

using llvm::StringRef;
using namespace mlir;

namespace ztc::importer {
namespace {

/// "aten.add" of an initializer that dynamo called after the node it folded, "add_4"; "" where the name says nothing.
StringRef foldedOperation(StringRef name) {
  StringRef stem = name.rtrim("0123456789");
  return stem.consume_back("_") || stem == name ? stem : StringRef();
}

bool mentionsParameter(const Node &node) {
  return StringRef(node.fxNode).contains("%p_");
}

bool isNormScale(const Node &node, unsigned index) {
  return node.op == "Mul" || (StringRef(node.op).ends_with("LayerNormalization") && index == 1) ||
         (node.op == "RMSNormalization" && index == 1);
}

} // namespace

bool hasShiftedNorms(StringRef family) {
  static const llvm::StringSet<> families = {
      "gemma",    "gemma2",     "gemma3",  "gemma3_text",  "recurrent_gemma", "t5gemma",    "t5gemma2",
      "nemotron", "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe",     "vaultgemma", "qwen3_5_moe_text"};
  return families.contains(family);
}

WeightFacts::WeightFacts(const Model &model, const Names &names, StringRef family)
    : model(model), names(names), family(family.str()), shiftedNorms(importer::hasShiftedNorms(family)) {
  for (auto [n, node] : llvm::enumerate(model.nodes))
    for (auto [i, input] : llvm::enumerate(node.inputs))
      if (model.initializer(input))
        readers[input].push_back({unsigned(n), unsigned(i)});
}

WeightFact WeightFacts::of(const Parameter &parameter) const {
  const Initializer &initializer = *parameter.initializer;
  if (initializer.isRestored)
    return {};
  // Exporters rename what they compute: a kept name is an untouched tensor. (The onnxruntime-genai builder, whose
  // names are its own, is recognised by its operators and folds 1 + w under the norm's name.)
  bool isBuilder = llvm::any_of(model.nodes, [](const Node &node) {
    return node.op == "SimplifiedLayerNormalization" || node.op == "SkipSimplifiedLayerNormalization";
  });
  bool isVector = initializer.shape.size() == 1;
  bool isNorm = false, isProduct = false, isNamed = false;
  auto found = readers.find(initializer.name);
  if (found != readers.end())
    for (auto [n, i] : found->second) {
      isNorm |= isVector && isNormScale(model.nodes[n], i);
      isProduct |= (model.nodes[n].op == "MatMul" || model.nodes[n].op == "Gemm") && i == 1;
      isNamed |= mentionsParameter(model.nodes[n]);
    }
  if (!names.checkpointName(initializer.name).empty()) {
    if (isBuilder && isVector && shiftedNorms)
      return {WeightFact::Kind::OnePlus, ""};
    return {};
  }
  // dynamo: the node names the parameter that it multiplies by; what stands between is the transpose of a linear layer.
  if (isNamed)
    return {};
  // TorchScript and optimizers leave no more than the place of a matrix: whether it was scaled, they do not say. The
  // linear layers of transformers' own models are not (but for BitNet's).
  if (isProduct && model.nodes[found->second[0].first].fxNode.empty())
    return {family.empty() || family == "bitnet" ? WeightFact::Kind::Likely : WeightFact::Kind::Untouched, ""};
  if (isNorm && shiftedNorms)
    return {WeightFact::Kind::OnePlus, ""};
  StringRef operation = foldedOperation(initializer.name);
  static const llvm::StringSet<> arranging = {"_to_copy",  "type_as", "to",        "clone", "detach",
                                              "alias",     "permute", "transpose", "t",     "numpy_t",
                                              "unsqueeze", "squeeze", "expand",    "view",  "contiguous"};
  if (arranging.contains(operation) || (isProduct && arranging.contains(initializer.name)))
    return {};
  if (isVector || !operation.empty())
    return {WeightFact::Kind::Unknown,
            "the exporter computed it ('" + initializer.name + "') from a parameter that it no longer names"};
  return {};
}

/// Trains w where the initializer holds 1 + w.
static void unshift(Emitter &emitter, StringRef name) {
  std::vector<Parameter> &parameters = emitter.parameters();
  size_t index = llvm::find_if(parameters, [&](const Parameter &p) { return p.name == name; }) - parameters.begin();
  WeightForm form = WeightForm::of(name, parameters[index].transposed);
  form.shift = 1;
  applyForm(emitter, index, form, Shape(shapeOf(parameters[index].argument)));
  for (Parameter &parameter : parameters)
    if (parameter.stored == name)
      parameter.shift = form.shift;
}

/// Whether dynamo's own name of a constant is that of arithmetic: "add_4" is 1 + w, or something else that is no
/// parameter.
static bool isCalledArithmetic(StringRef name) {
  static const llvm::StringSet<> calls = {"add",  "sub",      "rsub",       "mul",   "div",   "neg",
                                          "exp",  "log",      "pow",        "sqrt",  "rsqrt", "sigmoid",
                                          "tanh", "softplus", "reciprocal", "square"};
  return calls.contains(foldedOperation(name));
}

LogicalResult undoFolded(Emitter &emitter, const WeightFacts &facts, StringRef path, StringRef freeze,
                         ImportReport &report) {
  std::vector<std::string> shifted, unknown, computed;
  const llvm::Regex regex(freeze.empty() ? "^$" : freeze);
  for (const Parameter &parameter : emitter.parameters()) {
    WeightFact fact = facts.of(parameter);
    const std::string &called = parameter.initializer->name;
    if (fact.kind == WeightFact::Kind::OnePlus)
      shifted.push_back(parameter.name);
    else if (fact.kind == WeightFact::Kind::Unknown && !isCalledArithmetic(called))
      unknown.push_back(parameter.name);
    else if (fact.kind == WeightFact::Kind::Unknown && !(regex.isValid() && regex.match(parameter.name)))
      computed.push_back(parameter.name + " ('" + called + "' in the graph)");
  }
  if (!computed.empty())
    return emitError(UnknownLoc::get(emitter.function().getContext()))
           << path << ": the exporter computed " << computed[0]
           << (computed.size() > 1 ? " and " + std::to_string(computed.size() - 1) + " more" : "")
           << " from a parameter, and the graph does not tell how (1 + w, exp(w), ...): it would be trained as another "
              "number. Give the checkpoint with --weights, put its config.json beside the file, or export again with "
              "optimize=False (dynamo) or do_constant_folding=False (TorchScript); what is not to be trained, name "
              "with "
              "--freeze=REGEX";
  if (!unknown.empty())
    report.notes.push_back("the exporter computed what the graph holds as " + unknown[0] +
                           (unknown.size() > 1 ? " and " + std::to_string(unknown.size() - 1) + " more" : "") +
                           ": trained and exported as it stands there; --weights tells what a checkpoint has instead");
  for (const std::string &name : shifted)
    unshift(emitter, name);
  return success();
}

} // namespace ztc::importer
