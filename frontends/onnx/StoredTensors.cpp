#include "frontends/onnx/StoredTensors.h"
#include "frontends/onnx/HostTensor.h"
#include "frontends/onnx/WeightViews.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

bool isMask(const TensorView &tensor) {
  for (int64_t i = 0, n = tensor.count(); i < n; ++i)
    if (double value = tensor.at(i); value != 0 && value != 1)
      return false;
  return true;
}

} // namespace

ElementType floatTypeNamed(StringRef name) {
  for (ElementType type : {ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::F64})
    if (elementName(type) == name)
      return type;
  return ElementType::Undefined;
}

std::vector<TensorView> floatTensorsOf(const SafetensorsCollection &files) {
  std::vector<TensorView> tensors;
  for (const auto &file : files.files())
    for (const SafetensorsTensor &tensor : file->tensors())
      if (ElementType type = floatTypeNamed(tensor.typeName); type != ElementType::Undefined) {
        auto data = file->data(tensor);
        tensors.push_back({tensor.name,
                           {reinterpret_cast<const char *>(data.data()), data.size()},
                           type,
                           Shape(tensor.shape.begin(), tensor.shape.end())});
      }
  return tensors;
}

StoredTensors::StoredTensors(const Model &model, const Names &names, const std::string &weights)
    : model(model), names(names) {
  if (weights.empty())
    return;
  if (StatusOr<SafetensorsCollection> opened = SafetensorsCollection::open(weights); opened.isOk())
    tensors = floatTensorsOf(files.emplace(std::move(*opened)));
}

bool StoredTensors::hasValuesOf(const TensorView &tensor, const TensorView &wanted) const {
  if (names.kindOfTensor(tensor.name) == Names::Kind::Buffer || tensor.isConstant())
    return false;
  double rounding = roundingOf(tensor.type, wanted.type);
  for (int64_t i = 0, n = wanted.count(); i < n; ++i)
    if (!agrees(wanted.at(i), tensor.at(i), rounding, 1, 0))
      return false;
  return true;
}

std::vector<std::string> StoredTensors::namesOf(const Initializer &initializer) const {
  if (tensors.empty() || !isFloat(initializer.type))
    return {};
  TensorView wanted = viewOf(model, initializer);
  bool hasValues = !wanted.bytes.empty();
  if (hasValues && wanted.count() > 1 && isMask(wanted))
    return {};
  std::string own = names.checkpointName(initializer.name);
  for (const TensorView &tensor : tensors)
    if ((tensor.name == initializer.name || tensor.name == own) && tensor.count() == initializer.count())
      return names.kindOfTensor(tensor.name) == Names::Kind::Buffer ? std::vector<std::string>()
                                                                    : std::vector{tensor.name};
  std::vector<std::string> equal;
  if (hasValues && !wanted.isConstant())
    for (const TensorView &tensor : tensors)
      if (tensor.count() == initializer.count() && hasValuesOf(tensor, wanted))
        equal.push_back(tensor.name);
  return equal;
}

} // namespace ztc::importer
