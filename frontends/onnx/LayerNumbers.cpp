#include "frontends/onnx/LayerNumbers.h"
#include "compiler/Support/Location.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <optional>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// "encoder.stack" and 3 of "encoder.stack.3.attention.weight": the first number of a name.
struct ListPlace {
  StringRef list;
  int64_t index = 0;
};

std::optional<ListPlace> placeOf(StringRef name) {
  for (size_t dot = name.find('.'); dot != StringRef::npos; dot = name.find('.', dot + 1)) {
    ListPlace place{name.take_front(dot)};
    StringRef number = name.drop_front(dot + 1).split('.').first;
    if (!number.getAsInteger(10, place.index) && place.index >= 0)
      return place;
  }
  return std::nullopt;
}

struct ModuleList {
  std::map<int64_t, unsigned> matrices; ///< by member
  double elements = 0;
  std::vector<size_t> parameters;

  bool isWhole() const { return matrices.rbegin()->first + 1 == int64_t(matrices.size()); }
  bool isOfBlocks() const {
    return matrices.size() > 1 && isWhole() &&
           llvm::all_of(matrices, [](const auto &entry) { return entry.second > 1; });
  }
};

} // namespace

std::vector<int64_t> layersOf(llvm::ArrayRef<NamedShape> parameters) {
  std::vector<int64_t> layers;
  for (const NamedShape &parameter : parameters)
    layers.push_back(layerOf(parameter.name));
  if (llvm::any_of(layers, [](int64_t layer) { return layer >= 0; }))
    return layers;
  llvm::StringMap<ModuleList> lists;
  for (auto [i, parameter] : llvm::enumerate(parameters)) {
    std::optional<ListPlace> place = placeOf(parameter.name);
    if (!place || place->list.ends_with("experts"))
      continue;
    ModuleList &list = lists[place->list];
    double elements = 1;
    for (int64_t size : parameter.shape)
      elements *= double(size);
    list.elements += elements;
    list.matrices[place->index] += parameter.shape.size() > 1;
    list.parameters.push_back(i);
  }
  const ModuleList *blocks = nullptr;
  for (const auto &entry : lists)
    if (entry.second.isOfBlocks() && (!blocks || entry.second.elements > blocks->elements))
      blocks = &entry.second;
  if (!blocks)
    return layers;
  for (const auto &entry : lists)
    if (entry.second.isWhole() && entry.second.matrices.size() == blocks->matrices.size())
      for (size_t i : entry.second.parameters)
        layers[i] = placeOf(parameters[i].name)->index;
  return layers;
}

} // namespace ztc::importer
