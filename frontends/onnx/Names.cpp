#include "frontends/onnx/Names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <algorithm>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// First components of the names in checkpoints of language models.
bool isRoot(StringRef component) {
  static const llvm::StringSet<> roots{"model", "transformer", "lm_head", "gpt_neox", "embed_out", "backbone", "rwkv"};
  return roots.contains(component);
}

/// Components that torch.compile, DDP, FSDP and PEFT put into names; no checkpoint has them.
bool isAddedByTools(StringRef component) {
  return component == "_orig_mod" || component == "_fsdp_wrapped_module" || component == "_checkpoint_wrapped_module" ||
         component == "base_layer";
}

std::string withoutTools(StringRef name) {
  llvm::SmallVector<StringRef> parts;
  name.split(parts, '.');
  llvm::erase_if(parts, isAddedByTools);
  return llvm::join(parts, ".");
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

namespace {

bool looksLikeParameter(StringRef name) {
  return name.ends_with(".weight") || name.ends_with(".bias");
}

/// A name without the parts that are numbers, and those.
std::pair<std::string, std::vector<uint64_t>> numbersOf(StringRef name) {
  std::pair<std::string, std::vector<uint64_t>> result;
  llvm::SmallVector<StringRef> parts;
  name.split(parts, '.');
  for (StringRef part : parts)
    if (uint64_t number; !part.getAsInteger(10, number))
      result.second.push_back(number);
    else
      result.first += (part + ".").str();
  return result;
}

/// How many leading components the names share, leaving at least two.
size_t commonComponents(llvm::ArrayRef<std::string> names) {
  llvm::SmallVector<StringRef> common;
  for (const auto &[i, name] : llvm::enumerate(names)) {
    llvm::SmallVector<StringRef> parts;
    StringRef(name).split(parts, '.');
    parts.truncate(parts.size() < 2 ? 0 : parts.size() - 2);
    if (i == 0)
      common = parts;
    while (common.size() > parts.size() || !std::equal(common.begin(), common.end(), parts.begin()))
      common.pop_back();
  }
  return common.size();
}

StringRef withoutComponents(StringRef name, size_t count) {
  for (; count; --count)
    name = name.split('.').second;
  return name;
}

/// Components of a wrapper in front of all names: what is left after them begins as checkpoints do.
size_t wrapperComponents(llvm::ArrayRef<std::string> names) {
  for (size_t count = commonComponents(names); count; --count)
    if (llvm::all_of(names, [&](StringRef name) {
          StringRef first = withoutComponents(name, count).split('.').first;
          return isRoot(first);
        }))
      return count;
  return 0;
}

/// The older exporter leaves neither a signature nor scopes, and names nodes by their modules.
bool isOfTorchScript(const Model &model) {
  return StringRef(model.exporter).starts_with("pytorch") && model.parameterTargets.empty() &&
         llvm::all_of(model.nodes, [](const Node &node) { return node.scopes.empty(); }) &&
         llvm::any_of(model.nodes, [](const Node &node) { return StringRef(node.name).starts_with("/"); });
}

} // namespace

Names::Names(const Model &model, llvm::ArrayRef<std::string> checkpoint)
    : model(model), scopes(model), isTorchScript(isOfTorchScript(model)) {
  std::vector<std::string> names;
  for (const auto &entry : model.parameterTargets)
    names.push_back(withoutTools(entry.second));
  if (names.empty())
    for (const Initializer &initializer : model.initializers)
      if (looksLikeParameter(initializer.name) && !StringRef(initializer.name).starts_with("onnx::") &&
          !StringRef(initializer.name).starts_with("/"))
        names.push_back(withoutTools(initializer.name));
  if (model.exporter != "ztc") // its own graphs of folders have the checkpoint's names
    choosePrefix(names, checkpoint);
  for (const auto &entry : model.parameterTargets)
    isTarget[stripped(entry.second)] = true;
  findRepeats();
}

/// [block] * 3 is one module under three names, all of them parameters in dynamo's signature. The text of each node
/// names the last place, its scopes that in which the module was called. Equal tensors of several modules keep names of
/// their own in both.
void Names::findRepeats() {
  if (isTarget.empty())
    return;
  for (const Node &node : model.nodes) {
    if (node.scopes.empty())
      continue;
    const std::vector<std::string> targets = targetsIn(node);
    const std::string scope = targets.empty() ? "" : scopeOf(node);
    for (const std::string &target : targets) {
      const std::string here = scope + "." + StringRef(target).rsplit('.').second.str();
      if (here == target || !isTarget.count(here) || llvm::is_contained(targets, here) ||
          numbersOf(here).first != numbersOf(target).first)
        continue;
      for (const std::string &name : {here, target})
        if (std::string &first = firstOf[target]; first.empty() || numbersOf(name).second < numbersOf(first).second)
          first = name;
    }
  }
}

/// The prefix to take off, and the one to put there: what most names of a checkpoint agree with, where there is one.
void Names::choosePrefix(llvm::ArrayRef<std::string> names, llvm::ArrayRef<std::string> checkpoint) {
  if (names.empty())
    return;
  size_t common = commonComponents(names), guess = wrapperComponents(names), bestMatches = 0;
  llvm::StringSet<> known;
  for (const std::string &name : checkpoint)
    known.insert(name);
  auto prefixOf = [&](size_t count) {
    StringRef rest = withoutComponents(names.front(), count);
    return StringRef(names.front()).drop_back(rest.size()).str();
  };
  wrapper = prefixOf(guess);
  if (known.empty())
    return;
  auto matches = [&](size_t count, StringRef front) {
    return size_t(llvm::count_if(
        names, [&](StringRef name) { return known.contains((front + withoutComponents(name, count)).str()); }));
  };
  bestMatches = matches(guess, "");
  for (StringRef front :
       {"", "model.", "transformer.", "model.language_model.", "language_model.", "language_model.model."})
    for (size_t count = 0; count <= common; ++count)
      if (size_t found = matches(count, front); found > bestMatches) {
        bestMatches = found;
        wrapper = prefixOf(count);
        added = front.str();
      }
}

std::string Names::stripped(StringRef name) const {
  std::string clean = withoutTools(name);
  StringRef rest = clean;
  if (!wrapper.empty() && rest == StringRef(wrapper).drop_back())
    return "";
  rest.consume_front(wrapper);
  return added.empty() || rest.empty() ? rest.str() : added + rest.str();
}

std::string Names::checkpointName(StringRef initializer) const {
  if (isTarget.count(initializer)) // a parameter of the outermost module has no dot in its name
    return initializer.str();
  if (initializer.starts_with("onnx::") || initializer.starts_with("/"))
    return "";
  if (!initializer.contains('.'))
    return isTorchScript && !llvm::all_of(initializer, llvm::isDigit) ? initializer.str() : "";
  return stripped(initializer);
}

std::string Names::scopeOf(const Node &node) const {
  if (!node.scopes.empty()) {
    std::vector<std::string> scopes = quotedStrings(node.scopes);
    if (scopes.size() < 2)
      return "";
    return stripped(scopes[scopes.size() - 2]); // the last one is the node itself
  }
  StringRef name = node.name;
  if (!name.consume_front("/"))
    return "";
  name = name.rtrim('/'); // onnxruntime appends to the name of the last node that it fused
  if (auto [path, last] = name.rsplit('/'); last.ends_with("Fusion"))
    name = path;
  size_t last = name.rfind('/');
  if (last == StringRef::npos)
    return "";
  return stripped(scopes.moduleOf(name.take_front(last)));
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
      targets.push_back(stripped(found->second));
    else { // no signature in the file: only the flattened name is known
      StringRef flat = name.drop_front(2);
      flat.consume_front(sanitised(wrapper));
      targets.push_back(sanitised(added) + flat.str());
    }
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
  if (auto known = toldByScope.find(initializer.name); known != toldByScope.end()) {
    result.name = known->second.lookup(scopeOf(consumer));
    result.isApart = true;
    return result;
  }
  if (auto known = told.find(initializer.name); known != told.end()) {
    result.name = known->second;
    return result;
  }
  std::string own = checkpointName(initializer.name), scope = scopeOf(consumer);
  bool isMatrix = initializer.shape.size() >= 2;
  bool addsVector = !isMatrix && (consumer.op == "Add" || consumer.op == "Gemm" ||
                                  (consumer.op == "LayerNormalization" && index == 2));
  std::string leaf = own.empty() ? (addsVector ? "bias" : "weight") : StringRef(own).rsplit('.').second.str();
  std::string scoped = scope.empty() ? "" : scope + "." + leaf;
  // A folded Transpose stands before MatMul and Gemm; a tensor that kept its name kept its orientation.
  bool isProduct = (consumer.op == "MatMul" ||
                    ((consumer.op == "Gemm" || consumer.op == "FusedMatMul") && !consumer.integer("transB", 0))) &&
                   index == 1;
  result.transposed = (own.empty() || initializer.holdsTranspose) && isProduct && initializer.shape.size() == 2;
  std::vector<std::string> targets = targetsIn(consumer);
  if (!targets.empty()) {
    // The one parameter that the text names may be another operand's: the bias beside a matrix that was computed.
    auto isAnother = [&](const Initializer &read, StringRef target) {
      const Initializer *holder = model.initializer(target);
      return holder && holder != &read && holder->shape != read.shape &&
             llvm::is_contained(consumer.inputs, holder->name);
    };
    bool scopeIsTarget = !scoped.empty() && (isTarget.count(scoped) || std::find(targets.begin(), targets.end(),
                                                                                 sanitised(scoped)) != targets.end());
    // An embedding that shares its table with the head is called after the head: its place says what it is.
    bool isSharedTable = isMatrix && consumer.op == "Gather" && isTarget.empty() && !scoped.empty();
    if (scopeIsTarget || isSharedTable)
      result.name = scoped;
    else if (!own.empty() && std::find(targets.begin(), targets.end(), own) != targets.end())
      result.name = own;
    else if (targets.size() == 1 && isTarget.count(targets[0]) && !isAnother(initializer, targets[0]))
      result.name = targets[0];
  } else if (!scoped.empty() && !own.empty() && !isMatrix && !isAncestor(scope, own)) {
    result.name = scoped; // a merged vector, used in another module than the one that gave it its name
  }
  if (result.name.empty())
    result.name = !own.empty() ? own : !scoped.empty() ? scoped : initializer.name;
  // By the text: the place that a node's scopes name may be that of equal tensors which the exporter merged.
  for (const std::string &target : targets)
    if (auto repeated = firstOf.find(target);
        repeated != firstOf.end() && numbersOf(target).first == numbersOf(result.name).first)
      result.name = repeated->second;
  return result;
}

bool Names::isOfModule(StringRef tensor, StringRef scope) const {
  const std::string name = stripped(model.targetOf(tensor));
  return scope.consume_back(StringRef(name).rsplit('.').first) && (scope.empty() || scope.ends_with("."));
}

bool Names::tellOneOf(const Initializer &initializer, llvm::ArrayRef<std::string> tensors) {
  llvm::StringMap<std::string> tensorOf;
  bool isClear = true;
  for (const Node &node : model.nodes) {
    if (!llvm::is_contained(node.inputs, initializer.name))
      continue;
    const std::string module = scopeOf(node);
    auto [chosen, isNew] = tensorOf.try_emplace(module);
    for (const std::string &tensor : isNew ? tensors : llvm::ArrayRef<std::string>())
      if (isOfModule(tensor, module)) {
        isClear &= chosen->second.empty();
        chosen->second = tensor;
      }
    isClear &= !chosen->second.empty();
  }
  if (isClear)
    toldByScope[initializer.name] = std::move(tensorOf);
  else if (tensors.size() == 1 || tensorOf.size() <= 1)
    tell(initializer.name, tensors[0]);
  else
    return false;
  return true;
}

Names::Kind Names::kindOfTensor(StringRef tensor) const {
  if (isTarget.empty())
    return Kind::Unknown;
  return isTarget.count(tensor) || isTarget.count(stripped(model.targetOf(tensor))) ? Kind::Parameter : Kind::Buffer;
}

Names::Kind Names::kindOf(const Initializer &initializer) const {
  std::string own = checkpointName(initializer.name);
  if (isTarget.empty() || own.empty())
    return StringRef(own).ends_with(".weight") || StringRef(own).ends_with(".bias") ? Kind::Parameter : Kind::Unknown;
  return isTarget.count(own) ? Kind::Parameter : Kind::Buffer;
}

} // namespace ztc::importer
