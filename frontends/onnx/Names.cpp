#include "frontends/onnx/Names.h"
#include <algorithm>

using llvm::StringRef;

namespace ztc::importer {
namespace {

bool isRoot(StringRef component) {
  return component == "model" || component == "transformer" || component == "lm_head";
}

/// "a.b.c" with its first component removed.
StringRef withoutFirst(StringRef name) {
  return name.split('.').second;
}

std::string sanitised(StringRef name) {
  std::string text = name.str();
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

bool isAncestor(StringRef path, StringRef name) {
  return path.empty() || (name.starts_with(path) && name.size() > path.size() && name[path.size()] == '.');
}

/// The quoted strings of "['', 'model', 'model.layers.0', 'linear']".
std::vector<std::string> quotedStrings(StringRef list) {
  std::vector<std::string> strings;
  while (true) {
    size_t open = list.find('\'');
    if (open == StringRef::npos)
      return strings;
    size_t close = list.find('\'', open + 1);
    if (close == StringRef::npos)
      return strings;
    strings.push_back(list.slice(open + 1, close).str());
    list = list.drop_front(close + 1);
  }
}

} // namespace

Names::Names(const Model &model) : model(model) {
  for (const auto &entry : model.parameterTargets)
    isTarget[entry.second] = true;
  for (const Initializer &initializer : model.initializers) {
    auto [first, rest] = StringRef(initializer.name).split('.');
    if (isRoot(first) && isRoot(rest.split('.').first))
      hasWrapper = true;
  }
}

std::string Names::checkpointName(StringRef initializer) const {
  if (!initializer.contains('.') || initializer.starts_with("onnx::") || initializer.starts_with("/"))
    return "";
  auto [first, rest] = initializer.split('.');
  return hasWrapper && isRoot(first) && isRoot(rest.split('.').first) ? rest.str() : initializer.str();
}

std::string Names::scopeOf(const Node &node) const {
  if (!node.scopes.empty()) {
    std::vector<std::string> scopes = quotedStrings(node.scopes);
    if (scopes.size() < 2)
      return "";
    return scopes[scopes.size() - 2]; // the last one is the node itself
  }
  StringRef name = node.name;
  if (!name.consume_front("/"))
    return "";
  size_t last = name.rfind('/');
  if (last == StringRef::npos)
    return "";
  std::string path = name.take_front(last).str();
  std::replace(path.begin(), path.end(), '/', '.');
  return hasWrapper ? withoutFirst(path).str() : path;
}

/// The checkpoint names of the parameters in dynamo's text "%linear : ... args = (%mul_4,
/// %p_model_layers_0_..._weight)".
std::vector<std::string> Names::targetsIn(const Node &node) const {
  std::vector<std::string> targets;
  StringRef text = node.fxNode;
  for (size_t at = text.find("%p_"); at != StringRef::npos; at = text.find("%p_")) {
    text = text.drop_front(at + 1);
    StringRef name = text.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (auto found = model.parameterTargets.find(name); found != model.parameterTargets.end())
      targets.push_back(found->second);
    else // no signature in the file: only the flattened name is known
      targets.push_back(name.drop_front(2).str());
  }
  return targets;
}

ParameterName Names::parameterOf(const Node &consumer, unsigned index, const Initializer &initializer) const {
  ParameterName result;
  if (consumer.op == "Identity") // TorchScript's alias of a merged tensor, under its own name
    if (std::string alias = checkpointName(consumer.outputs[0]); !alias.empty()) {
      result.name = alias;
      return result;
    }
  std::string own = checkpointName(initializer.name), scope = scopeOf(consumer);
  bool isMatrix = initializer.shape.size() >= 2;
  bool addsVector = !isMatrix && (consumer.op == "Add" || consumer.op == "Gemm" ||
                                  (consumer.op == "LayerNormalization" && index == 2));
  std::string leaf = own.empty() ? (addsVector ? "bias" : "weight") : StringRef(own).rsplit('.').second.str();
  std::string scoped = scope.empty() ? "" : scope + "." + leaf;
  // A folded Transpose stands before MatMul and Gemm; a tensor that kept its name kept its orientation.
  bool isProduct = (consumer.op == "MatMul" || (consumer.op == "Gemm" && !consumer.integer("transB", 0))) && index == 1;
  result.transposed = own.empty() && isProduct && initializer.shape.size() == 2;
  std::vector<std::string> targets = targetsIn(consumer);
  if (!targets.empty()) {
    bool scopeIsTarget = !scoped.empty() && (isTarget.count(scoped) || std::find(targets.begin(), targets.end(),
                                                                                 sanitised(scoped)) != targets.end());
    // An embedding that shares its table with the head is called after the head: its place says what it is.
    bool isSharedTable = isMatrix && consumer.op == "Gather" && isTarget.empty() && !scoped.empty();
    if (scopeIsTarget || isSharedTable)
      result.name = scoped;
    else if (!own.empty() && std::find(targets.begin(), targets.end(), own) != targets.end())
      result.name = own;
    else if (targets.size() == 1 && isTarget.count(targets[0]))
      result.name = targets[0];
  } else if (!scoped.empty() && !own.empty() && !isMatrix && !isAncestor(scope, own)) {
    result.name = scoped; // a merged vector, used in another module than the one that gave it its name
  }
  if (result.name.empty())
    result.name = !own.empty() ? own : !scoped.empty() ? scoped : initializer.name;
  return result;
}

Names::Kind Names::kindOf(const Initializer &initializer) const {
  std::string own = checkpointName(initializer.name);
  if (isTarget.empty() || own.empty())
    return StringRef(own).ends_with(".weight") || StringRef(own).ends_with(".bias") ? Kind::Parameter : Kind::Unknown;
  return isTarget.count(own) ? Kind::Parameter : Kind::Buffer;
}

} // namespace ztc::importer
