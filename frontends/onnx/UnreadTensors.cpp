#include "frontends/onnx/UnreadTensors.h"
#include "frontends/onnx/PositionTables.h"
#include "runtime/Core/ListText.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Regex.h"
#include <cmath>
#include <set>

using llvm::ArrayRef;
using llvm::StringRef;

namespace ztc::importer {
namespace {

/// "model.layers.3." of a tensor in that layer, else the module's own path with its dot.
StringRef moduleOf(StringRef name) {
  for (size_t dot = name.find('.'); dot != StringRef::npos; dot = name.find('.', dot + 1)) {
    StringRef rest = name.substr(dot + 1), component = rest.split('.').first;
    int64_t number;
    if (!component.getAsInteger(10, number) && component.size() < rest.size())
      return name.take_front(dot + 1 + component.size() + 1);
  }
  size_t last = name.rfind('.');
  return last == StringRef::npos ? StringRef() : name.take_front(last + 1);
}

/// Tables that old checkpoints keep beside their parameters: frequencies of rotary positions, causal masks.
bool isTable(const TensorView &tensor) {
  StringRef name = tensor.name;
  if (name.ends_with("inv_freq") || name.ends_with("masked_bias") || name.ends_with("position_ids"))
    return true;
  return tensor.shape.size() == 4 && tensor.shape[2] == tensor.shape[3] && name.ends_with(".bias");
}

std::string listed(ArrayRef<StringRef> names) {
  return listText(names, 3);
}

/// Ones or zeros: what they multiply or are added to is the same without them, and exporters leave them out.
bool isNeutral(const TensorView &tensor) {
  return !tensor.bytes.empty() && tensor.isConstant() && (tensor.at(0) == 0 || tensor.at(0) == 1);
}

/// Values that say where they come from: no lowest numbers, infinities, zeros and ones.
std::set<double> valuesOf(const TensorView &tensor) {
  constexpr int64_t kMostElements = 1 << 16;
  std::set<double> values;
  for (int64_t i = 0, n = tensor.bytes.empty() ? 0 : std::min(tensor.count(), kMostElements); i < n; ++i)
    if (double value = tensor.at(i); std::fabs(value) < 1e4 && value != 0 && std::fabs(value) != 1)
      values.insert(value);
  return values;
}

/// A constant that holds much of a tensor's values, as rows that were looked up or the like do; "" for none.
std::string constantWith(const TensorView &tensor, const Model &model, ArrayRef<const Initializer *> constants) {
  std::set<double> own = valuesOf(tensor);
  if (own.size() < 3)
    return "";
  for (const Initializer *constant : constants) {
    std::set<double> values = valuesOf(viewOf(model, *constant));
    size_t shared = llvm::count_if(values, [&](double value) { return own.count(value) != 0; });
    if (shared >= 3 && 2 * shared >= std::min(own.size(), values.size()))
      return constant->name;
  }
  return "";
}

llvm::StringSet<> modulesOf(const llvm::StringSet<> &trained) {
  llvm::StringSet<> modules{""}; // a parameter of the model itself stands beside all others, and so do those of a part
  for (const auto &entry : trained) {
    StringRef module = moduleOf(entry.getKey());
    for (size_t dot = module.find('.'); dot != StringRef::npos; dot = module.find('.', dot + 1))
      modules.insert(module.take_front(dot + 1));
  }
  return modules;
}

bool isFrozen(StringRef name, StringRef freeze, ImportReport &report) {
  const bool matches = !freeze.empty() && llvm::Regex(freeze).isValid() && llvm::Regex(freeze).match(name);
  report.freezesUnread |= matches;
  return matches;
}

std::string untrainedSentence(ArrayRef<StringRef> names, StringRef constants) {
  return llvm::formatv(
      "'{0}' would not be trained: no parameter of the graph stands for {1}; the exporter left {1} out, "
      "or computed {2} from {1}. Export again with optimize=False (dynamo) or "
      "do_constant_folding=False (TorchScript), or, where modules share tensors, give the state_dict with --weights; "
      "what is not to be trained, name with --freeze=REGEX",
      listed(names), names.size() == 1 ? "it" : "them",
      constants.empty() ? "a constant" : ("the constant '" + constants + "'").str());
}

/// Neither a mask nor sines and cosines.
bool hasOwnValues(const Model &model, const Initializer &constant) {
  return valuesOf(viewOf(model, constant)).size() >= 3 && !holdsAngles(model, constant);
}

/// `with`: what the model computes with, before "it"; `remedy`: how the way out with dynamo begins.
std::string unknownSentence(ArrayRef<StringRef> names, StringRef with, StringRef remedy) {
  const bool isOne = names.size() == 1;
  return llvm::formatv("'{0}' would not be trained: the model computes with {1}{2}, and this export does not tell "
                       "whether {3}. {4} with dynamo=True, which does; what is a buffer, or is not to be trained, name "
                       "with --freeze=REGEX",
                       listed(names), with, isOne ? "it" : "them",
                       isOne ? "it is a parameter or a buffer" : "they are parameters or buffers", remedy);
}

} // namespace

std::string constantOfValues(const Model &model, ArrayRef<const Initializer *> constants) {
  for (const Initializer *constant : constants)
    if (hasOwnValues(model, *constant))
      return constant->name;
  return "";
}

std::string noteComputed(ArrayRef<std::string> computed, StringRef freeze, ImportReport &report) {
  llvm::SmallVector<StringRef> names;
  for (StringRef name : computed)
    if (!isFrozen(name, freeze, report))
      names.push_back(name);
  if (names.empty())
    return "";
  const bool isOne = names.size() == 1;
  return llvm::formatv("'{0}' {1} no parameter of the exported module: the exporter computed {2} from parameters or "
                       "buffers, and {2} would be trained apart from them. Export again with optimize=False, or give "
                       "the module's state_dict with --weights; what is not to be trained, name with --freeze=REGEX",
                       listed(names), isOne ? "is" : "are", isOne ? "it" : "they");
}

std::string noteUntrained(ArrayRef<std::string> untrained, const llvm::StringSet<> &trained, StringRef constant,
                          StringRef freeze, ImportReport &report) {
  llvm::StringSet<> modules = modulesOf(trained);
  llvm::SmallVector<StringRef> inModules, elsewhere;
  for (StringRef name : untrained)
    if (!isFrozen(name, freeze, report))
      (modules.contains(moduleOf(name)) ? inModules : elsewhere).push_back(name);
  if (!inModules.empty())
    return untrainedSentence(inModules, constant);
  if (!elsewhere.empty() && !constant.empty())
    return untrainedSentence(elsewhere, constant);
  if (!elsewhere.empty())
    report.notes.push_back(llvm::formatv("'{0}' of the exported module reach the logits through no parameter of the "
                                         "graph: not trained",
                                         listed(elsewhere)));
  return "";
}

std::string checkConstants(const FoundParameters &found, const Model &model, const Names &names, StringRef freeze,
                           ImportReport &report) {
  std::vector<std::string> unknown;
  auto add = [&](const Initializer *initializer) {
    std::string name = names.checkpointName(initializer->name);
    TensorView view = viewOf(model, *initializer);
    if (!name.empty() && names.kindOf(*initializer) != Names::Kind::Buffer && !isTable(view) &&
        !holdsAngles(model, *initializer) && !isFrozen(name, freeze, report))
      unknown.push_back(std::move(name));
  };
  llvm::for_each(found.constants, add);
  llvm::for_each(found.uncertain, add);
  llvm::SmallVector<StringRef> views(unknown.begin(), unknown.end());
  if (!views.empty())
    return unknownSentence(views, "", "Give the checkpoint with --weights, or export");
  for (const Initializer *constant :
       found.constants) // TorchScript's name of what it folded: from a state_dict's tensor
    if (StringRef(constant->name).starts_with("onnx::") && hasOwnValues(model, *constant) &&
        !isFrozen(constant->name, freeze, report))
      return llvm::formatv("the constant '{0}' would not be trained: the exporter computed it from parameters or "
                           "buffers whose names it left out. Give the checkpoint with --weights, or export with "
                           "do_constant_folding=False (TorchScript) or dynamo=True; what is made of a buffer, or is "
                           "not to be trained, name with --freeze=REGEX",
                           constant->name);
  return "";
}

std::string noteUnread(ArrayRef<TensorView> checkpoint, const llvm::StringSet<> &used, const Unread &unread,
                       ImportReport &report) {
  const llvm::StringSet<> modules = modulesOf(used);
  llvm::StringSet<> constants, modulesWithValues;
  for (const Initializer &initializer : unread.model.initializers) {
    constants.insert(initializer.name);
    constants.insert(unread.names.checkpointName(initializer.name));
  }
  for (const TensorView &tensor : checkpoint)
    if (!isNeutral(tensor))
      modulesWithValues.insert(moduleOf(tensor.name));
  llvm::SmallVector<StringRef> lost, buffers, elsewhere, copies, uncertain;
  llvm::StringSet<> uncertainNames;
  for (const Initializer *initializer : unread.found.uncertain)
    uncertainNames.insert(unread.names.checkpointName(initializer->name));
  const std::string suspect = constantOfValues(unread.model, unread.found.constants);
  std::string computed;
  for (const TensorView &tensor : checkpoint) {
    if (used.contains(tensor.name) || isTable(tensor) || isFrozen(tensor.name, unread.freeze, report))
      continue;
    bool isCopy = llvm::any_of(checkpoint, [&](const TensorView &other) {
      return used.contains(other.name) && other.bytes.size() == tensor.bytes.size() && !tensor.isConstant() &&
             other.bytes == tensor.bytes;
    });
    StringRef module = moduleOf(tensor.name);
    const Names::Kind kind = unread.names.kindOfTensor(tensor.name);
    if (kind != Names::Kind::Buffer && uncertainNames.contains(tensor.name)) {
      uncertain.push_back(tensor.name);
      continue;
    }
    const bool isBuffer = kind == Names::Kind::Buffer || constants.contains(tensor.name);
    bool isIn = modules.contains(module) || (isNeutral(tensor) && !modulesWithValues.contains(module));
    std::string source;
    if (!isCopy && !isBuffer && !suspect.empty())
      source = kind == Names::Kind::Parameter && !isIn ? suspect
                                                       : constantWith(tensor, unread.model, unread.found.constants);
    for (const Initializer *constant : unread.found.constants)
      if (source.empty() && (isIn || !suspect.empty()) && tensor.count() > 1 && constant->count() == tensor.count())
        source = constant->name;
    isIn |= !source.empty();
    (isCopy ? copies : !isIn ? elsewhere : isBuffer ? buffers : lost).push_back(tensor.name);
    if (computed.empty() && !isCopy && !isBuffer)
      computed = source;
  }
  if (!uncertain.empty())
    return unknownSentence(uncertain, "positions and ", "Export");
  if (!lost.empty())
    return untrainedSentence(lost, computed);
  if (!buffers.empty())
    report.notes.push_back(llvm::formatv("{0} tensors of the checkpoint, in modules that are trained, are constants of "
                                         "the graph and are not trained: {1}",
                                         buffers.size(), listed(buffers)));
  if (!elsewhere.empty())
    report.notes.push_back(llvm::formatv("{0} tensors of the checkpoint are read by nothing in the graph and are not "
                                         "trained: {1}",
                                         elsewhere.size(), listed(elsewhere)));
  if (!copies.empty())
    report.notes.push_back(llvm::formatv("{0} tensors of the checkpoint are copies of trained ones that the graph does "
                                         "not read: {1}",
                                         copies.size(), listed(copies)));
  return "";
}

} // namespace ztc::importer
