#include "frontends/onnx/ScopePaths.h"
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

} // namespace

ScopePaths::ScopePaths(const Model &model) {
  for (const Initializer &initializer : model.initializers)
    if (isKeptName(initializer.name))
      for (StringRef module = StringRef(initializer.name).rsplit('.').first; !module.empty();
           module = module.contains('.') ? module.rsplit('.').first : StringRef())
        if (modules.insert(module).second)
          byComponent[componentOf(module)].push_back(module.str());
  for (const Node &node : model.nodes)
    if (StringRef name = node.name; name.consume_front("/")) {
      llvm::SmallVector<StringRef> components;
      name.split(components, '/');
      called.insert(components.begin(), components.end());
    }
}

/// Modules between the two are containers that nothing calls: where one is called, its name would stand in the path.
bool ScopePaths::isReachedWithoutCalls(StringRef module, StringRef parent) const {
  for (size_t dot = module.rfind('.'); dot != StringRef::npos && dot > parent.size(); dot = module.rfind('.', dot))
    if (called.contains(componentOf(module.take_front(dot))))
      return false;
  return true;
}

std::string ScopePaths::below(StringRef parent, StringRef before, StringRef component) const {
  std::string direct = joined(parent, component);
  if (modules.contains(direct))
    return direct;
  StringRef only;
  unsigned count = 0;
  if (auto known = byComponent.find(component); known != byComponent.end())
    for (StringRef module : known->second)
      if ((parent.empty() || (module.starts_with(parent) && module.drop_front(parent.size()).starts_with("."))) &&
          isReachedWithoutCalls(module, parent)) {
        only = module;
        ++count;
      }
  if (count == 1)
    return only.str();
  StringRef rest = component;
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
    module = below(module, before, component);
    before = component;
  }
  return module;
}

} // namespace ztc::importer
