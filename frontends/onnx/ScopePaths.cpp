#include "frontends/onnx/ScopePaths.h"
#include "frontends/onnx/HostTensor.h"
#include "frontends/onnx/WeightForm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

bool isNumber(StringRef atom) {
  return !atom.empty() && llvm::all_of(atom, llvm::isDigit);
}

/// What a scope calls a module: "h.0" of "transformer.h.0" (torch.onnx's _unqualified_variable_name).
StringRef componentOf(StringRef module) {
  size_t end = module.size();
  while (end != StringRef::npos) {
    size_t dot = module.rfind('.', end);
    size_t begin = dot == StringRef::npos ? 0 : dot + 1;
    if (!isNumber(module.slice(begin, end)))
      return module.drop_front(begin);
    end = dot;
  }
  return module;
}

bool isKeptName(StringRef name) {
  return name.contains('.') && !name.starts_with("onnx::") && !name.starts_with("/");
}

std::string joined(StringRef parent, StringRef component) {
  return parent.empty() ? component.str() : (parent + "." + component).str();
}

StringRef parentOf(StringRef module) {
  return module.contains('.') ? module.rsplit('.').first : StringRef();
}

/// "mlp" of "mlp_1"; "" of what has no number.
StringRef unnumbered(StringRef component) {
  auto [stem, number] = component.rsplit('_');
  return isNumber(number) ? stem : StringRef();
}

bool mayBe(StringRef module, StringRef component) {
  StringRef own = componentOf(module);
  return own == component || own == unnumbered(component);
}

} // namespace

ScopePaths::ScopePaths(const Model &model) {
  readNames(model);
  readScopes(model);
  findRepeats(model);
}

void ScopePaths::readNames(const Model &model) {
  auto add = [&](StringRef tensor) {
    for (StringRef module = parentOf(tensor); isKeptName(tensor) && !module.empty(); module = parentOf(module))
      if (modules.insert(module).second)
        byComponent[componentOf(module)].push_back(module.str());
  };
  for (const Initializer &initializer : model.initializers)
    add(initializer.name);
  for (const Node &node : model.nodes) // of merged tensors
    if (node.op == "Identity" && !node.inputs.empty() && model.initializer(node.inputs[0]))
      add(node.outputs[0]);
}

void ScopePaths::readScopes(const Model &model) {
  for (const Node &node : model.nodes) {
    StringRef name = node.name;
    if (!name.consume_front("/"))
      continue;
    llvm::SmallVector<StringRef> components;
    name.split(components, '/');
    called.insert(components.begin(), components.end());
    if (components.size() < 2)
      continue;
    StringRef path = name.rsplit('/').first;
    components.pop_back();
    for (const std::string &input : node.inputs) {
      const Initializer *initializer = model.initializer(input);
      const Node *alias = model.producer(input);
      if (isKeptName(input) && (initializer || (alias && alias->op == "Identity")))
        noteReads(components, parentOf(input));
      else if (initializer && initializer->shape.size() == 2 && isFloat(initializer->type))
        scopes[path].unnamed.push_back(initializer);
    }
  }
}

/// A node of this path reads a tensor of `module`: each component is the nearest module above that has its name. Where
/// one has none, tools have merged equal tensors of several modules, and the path says more.
void ScopePaths::noteReads(llvm::ArrayRef<StringRef> components, StringRef module) {
  const bool isOwn = mayBe(module, components.back());
  std::vector<StringRef> found(components.size());
  StringRef above = module;
  for (size_t i = components.size(); i--; above = parentOf(above)) {
    while (!above.empty() && !mayBe(above, components[i]))
      above = parentOf(above);
    if (above.empty())
      return;
    found[i] = above;
  }
  std::string path;
  for (auto [component, of] : llvm::zip(components, found)) {
    path += (path.empty() ? "" : "/") + component.str();
    scopes[path].modules.insert(of);
  }
  if (isOwn)
    pathsOf[module].insert(path);
}

/// A matrix without a name that two paths of one name read is one module's, called twice.
void ScopePaths::findRepeats(const Model &model) {
  for (const auto &entry : scopes) {
    auto [parent, component] =
        entry.getKey().contains('/') ? entry.getKey().rsplit('/') : std::pair<StringRef, StringRef>("", entry.getKey());
    StringRef stem = unnumbered(component);
    auto earlier = scopes.find(parent.empty() ? stem.str() : (parent + "/" + stem).str());
    if (stem.empty() || earlier == scopes.end())
      continue;
    for (const Initializer *matrix : entry.second.unnamed)
      if (llvm::is_contained(earlier->second.unnamed, matrix) && !viewOf(model, *matrix).isConstant())
        repeated[entry.getKey()] = stem.str();
  }
}

/// A module whose tensors other paths read, and this one does not.
bool ScopePaths::isOfAnother(StringRef module, StringRef path) const {
  auto readers = pathsOf.find(module);
  return readers != pathsOf.end() && !readers->second.contains(path);
}

/// Modules between the two are containers that nothing calls: where one is called, its name would stand in the path.
bool ScopePaths::isReachedWithoutCalls(StringRef module, StringRef parent) const {
  for (size_t dot = module.rfind('.'); dot != StringRef::npos && dot > parent.size(); dot = module.rfind('.', dot))
    if (called.contains(componentOf(module.take_front(dot))))
      return false;
  return true;
}

/// The module that what the nodes of a path read shows it to be; "" for none. Of two, one is that of a merged tensor:
/// the path has the name of the other.
std::string ScopePaths::shown(const Place &place) const {
  auto scope = scopes.find(place.path);
  if (scope == scopes.end())
    return "";
  // Modules of two containers may share the front of a path: "/a/norm" is left.a.norm, "/a/norm_1" is right.a.norm.
  const bool isParentKnown = modules.contains(place.parent);
  llvm::SmallVector<StringRef> named, numbered;
  for (const auto &entry : scope->second.modules)
    if (StringRef module = entry.getKey(); !isParentKnown || module.starts_with((place.parent + ".").str()))
      (componentOf(module) == place.component ? named : numbered).push_back(module);
  if (named.empty() && modules.contains(joined(place.parent, place.component)))
    return "";
  const auto &found = named.empty() ? numbered : named;
  return found.size() == 1 ? found[0].str() : "";
}

std::string ScopePaths::below(const Place &place) const {
  StringRef parent = place.parent, component = place.component;
  if (std::string module = shown(place); !module.empty())
    return module;
  if (auto known = repeated.find(place.path); known != repeated.end()) {
    std::string path = place.path.drop_back(component.size()).str() + known->second;
    return below({path, parent, place.before, known->second});
  }
  std::string direct = joined(parent, component);
  if (modules.contains(direct) && !isOfAnother(direct, place.path))
    return direct;
  StringRef only;
  unsigned count = 0;
  if (auto known = byComponent.find(component); known != byComponent.end())
    for (StringRef module : known->second)
      if ((parent.empty() || (module.starts_with(parent) && module.drop_front(parent.size()).starts_with("."))) &&
          isReachedWithoutCalls(module, parent) && !isOfAnother(module, place.path)) {
        only = module;
        ++count;
      }
  if (count == 1)
    return only.str();
  StringRef rest = component, before = place.before;
  if (rest.consume_front(before) && rest.consume_front(".") && !before.empty()) {
    llvm::SmallVector<StringRef> atoms;
    rest.split(atoms, '.');
    if (llvm::all_of(atoms, isNumber))
      return joined(parent, rest);
  }
  return direct;
}

std::string ScopePaths::moduleOf(StringRef path) const {
  std::string module;
  llvm::SmallVector<StringRef> components;
  path.split(components, '/');
  StringRef before;
  for (StringRef component : components) {
    StringRef whole = path.take_front(component.end() - path.begin());
    module = below({whole, module, before, component});
    before = component;
  }
  return module;
}

} // namespace ztc::importer
