#include "frontends/onnx/BuilderNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

constexpr StringRef kWeightSuffix = ".MatMul.weight";

bool isFromBuilder(const Model &model) {
  return llvm::any_of(model.initializers, [](const Initializer &initializer) {
    return StringRef(initializer.name).starts_with("model.layers.") &&
           StringRef(initializer.name).ends_with(kWeightSuffix);
  });
}

void replace(std::string &text, StringRef from, StringRef to) {
  if (size_t at = StringRef(text).find(from); at != StringRef::npos)
    text = text.substr(0, at) + to.str() + text.substr(at + from.size());
}

/// "model.layers.<n>.final_norm_layernorm" is the norm after the last layer.
void replaceFinalNorm(std::string &text) {
  std::string front = "layers.", back = "final_norm_layernorm";
  size_t at = text.find(front), end = text.find(back);
  if (at != std::string::npos && end != std::string::npos)
    text = text.substr(0, at) + "norm" + text.substr(end + back.size());
}

std::string checkpointForm(StringRef name) {
  std::string text = name.str();
  if (name.ends_with(kWeightSuffix))
    text = name.drop_back(kWeightSuffix.size()).str() + ".weight";
  for (StringRef suffix : {".Add.bias", ".MatMul.bias"})
    if (name.ends_with(suffix))
      text = name.drop_back(suffix.size()).str() + ".bias";
  replace(text, ".attn.", ".self_attn.");
  replace(text, "_norm.layernorm.weight", "_norm.weight");
  replaceFinalNorm(text);
  return text;
}

void rename(Model &model) {
  llvm::StringMap<std::string> names;
  for (Initializer &initializer : model.initializers) {
    std::string name = checkpointForm(initializer.name);
    if (name == initializer.name || model.initializerOf.count(name))
      continue;
    names[initializer.name] = name;
    initializer.holdsTranspose = StringRef(initializer.name).ends_with(kWeightSuffix);
    model.initializerOf.erase(initializer.name);
    initializer.fileName = initializer.nameInFile();
    initializer.name = name;
    model.initializerOf[name] = &initializer;
  }
  for (Node &node : model.nodes) {
    replace(node.name, "/attn/", "/self_attn/");
    replaceFinalNorm(node.name);
    for (std::string &input : node.inputs)
      if (auto found = names.find(input); found != names.end())
        input = found->second;
  }
}

/// MatMul by one matrix for queries, keys and values, with a bias after it or without, that a GroupQueryAttention
/// reads.
struct PackedProjection {
  const Node *product = nullptr, *sum = nullptr;
  const Initializer *weight = nullptr, *bias = nullptr;
};

PackedProjection packedProjectionOf(const Model &model, const Node &attention) {
  PackedProjection packed;
  if (attention.signature != "com.microsoft::GroupQueryAttention" || attention.hasInput(1))
    return packed;
  const Node *node = model.producer(attention.inputs[0]);
  if (node && node->op == "Add" && node->inputs.size() == 2) {
    packed.sum = node;
    packed.bias = model.initializer(node->inputs[1]);
    if (!packed.bias || packed.bias->shape.size() != 1)
      return {};
    node = model.producer(node->inputs[0]);
  }
  if (!node || node->op != "MatMul" || node->inputs.size() != 2)
    return {};
  packed.product = node;
  packed.weight = model.initializer(node->inputs[1]);
  if (!packed.weight || packed.weight->shape.size() != 2 ||
      !StringRef(packed.weight->name).ends_with(".qkv_proj.weight"))
    return {};
  return packed;
}

/// A tensor of the checkpoint that the file holds only as a part of another.
std::string addPart(Model &model, const Initializer &whole, StringRef part, int64_t first, int64_t columns) {
  Initializer initializer;
  initializer.name = whole.name;
  replace(initializer.name, ".qkv_proj.", ("." + part + ".").str());
  initializer.type = whole.type;
  initializer.shape = whole.shape;
  initializer.shape.back() = columns;
  initializer.holdsTranspose = whole.holdsTranspose;
  initializer.filePlaces.push_back({FilePlace::Kind::Columns, whole.nameInFile(), first, {}, nullptr});
  model.initializers.push_back(initializer);
  model.initializerOf[initializer.name] = &model.initializers.back();
  return initializer.name;
}

/// The three projections in front of `attention`, which reads them from now on.
std::vector<Node> split(Model &model, const PackedProjection &packed, Node &attention) {
  int64_t heads = attention.integer("num_heads", 0), keyHeads = attention.integer("kv_num_heads", 0);
  int64_t width = packed.weight->shape[1] / (heads + 2 * keyHeads);
  attention.inputs.resize(std::max<size_t>(attention.inputs.size(), 3));
  std::vector<Node> nodes;
  std::pair<StringRef, int64_t> parts[] = {{"q_proj", heads}, {"k_proj", keyHeads}, {"v_proj", keyHeads}};
  int64_t first = 0;
  for (auto [i, part] : llvm::enumerate(parts)) {
    auto add = [&](const Node &from, const std::string &operand, const Initializer &initializer) {
      Node node = from;
      replace(node.name, "qkv_proj", part.first);
      node.inputs = {operand, addPart(model, initializer, part.first, first, part.second * width)};
      node.outputs = {from.outputs[0] + "/" + part.first.str()};
      nodes.push_back(node);
      return node.outputs[0];
    };
    std::string value = add(*packed.product, packed.product->inputs[0], *packed.weight);
    attention.inputs[i] = packed.sum ? add(*packed.sum, value, *packed.bias) : value;
    first += part.second * width;
  }
  return nodes;
}

} // namespace

void restoreBuilderNames(Model &model, llvm::ArrayRef<std::string> checkpoint) {
  if (!isFromBuilder(model))
    return;
  rename(model);
  llvm::StringSet<> known;
  for (const std::string &name : checkpoint)
    known.insert(name);
  std::vector<Node> nodes;
  for (const Node &node : model.nodes) {
    Node copy = node;
    if (PackedProjection packed = packedProjectionOf(model, node); packed.product) {
      std::string query = packed.weight->name;
      replace(query, ".qkv_proj.", ".q_proj.");
      int64_t groups = node.integer("num_heads", 0) + 2 * node.integer("kv_num_heads", 0);
      if (known.contains(query) && groups > 0 && packed.weight->shape[1] % groups == 0)
        for (Node &added : split(model, packed, copy))
          nodes.push_back(std::move(added));
    }
    nodes.push_back(std::move(copy));
  }
  model.nodes = std::move(nodes);
  model.indexProducers();
}

} // namespace ztc::importer
