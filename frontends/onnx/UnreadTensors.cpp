#include "frontends/onnx/UnreadTensors.h"
#include "llvm/Support/FormatVariadic.h"

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
  std::string text;
  for (size_t i = 0; i < names.size() && i < 3; ++i)
    text += (i ? ", " : "") + names[i].str();
  return names.size() > 3 ? text + llvm::formatv(" and {0} more", names.size() - 3).str() : text;
}

} // namespace

std::string noteUnread(ArrayRef<TensorView> checkpoint, const llvm::StringSet<> &used,
                       ArrayRef<const Initializer *> constants, ImportReport &report) {
  llvm::StringSet<> trainedModules;
  for (const auto &entry : used)
    trainedModules.insert(moduleOf(entry.getKey()));
  llvm::SmallVector<StringRef> inModules, elsewhere, copies;
  for (const TensorView &tensor : checkpoint) {
    if (used.contains(tensor.name) || isTable(tensor))
      continue;
    bool isCopy = llvm::any_of(checkpoint, [&](const TensorView &other) {
      return used.contains(other.name) && other.bytes.size() == tensor.bytes.size() && !tensor.isConstant() &&
             other.bytes == tensor.bytes;
    });
    bool isIn = trainedModules.contains(moduleOf(tensor.name));
    (isCopy ? copies : isIn ? inModules : elsewhere).push_back(tensor.name);
    for (const Initializer *constant : constants)
      if (!isCopy && isIn && tensor.count() > 1 && constant->count() == tensor.count())
        return llvm::formatv("'{0}' of the checkpoint would not be trained: no parameter of the graph stands for it, "
                             "and the exporter may have computed the constant '{1}' from it",
                             tensor.name, constant->name);
  }
  if (!inModules.empty())
    report.notes.push_back(llvm::formatv("{0} tensors of the checkpoint, in modules that are trained, are read by "
                                         "nothing in the graph and are not trained: {1}",
                                         inModules.size(), listed(inModules)));
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
