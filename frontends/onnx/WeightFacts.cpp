#include "frontends/onnx/WeightFacts.h"

using llvm::StringRef;

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
  if (isNamed || (isProduct && found != readers.end() && model.nodes[found->second[0].first].fxNode.empty()))
    return {};
  if (isNorm && shiftedNorms)
    return {WeightFact::Kind::OnePlus, ""};
  StringRef operation = foldedOperation(initializer.name);
  if (operation == "_to_copy" || operation == "type_as" || operation == "to" || operation == "clone" ||
      operation == "detach" || operation == "alias")
    return {};
  if (isVector || !operation.empty())
    return {WeightFact::Kind::Unknown,
            "the exporter computed it ('" + initializer.name + "') from a parameter that it no longer names"};
  return {};
}

} // namespace ztc::importer
