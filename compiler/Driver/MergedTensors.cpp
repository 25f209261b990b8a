#include "compiler/Driver/MergedTensors.h"
#include "frontends/onnx/StoredTensors.h"
#include "runtime/Core/FloatArrays.h"
#include "runtime/Format/AdapterChanges.h"
#include <cstring>

namespace ztc::driver {

using importer::ElementType;
using importer::TensorView;

/// Floats in the element type of a checkpoint, rounded once.
static std::vector<char> bytesOf(const std::vector<float> &values, ElementType type) {
  std::vector<char> bytes;
  if (type == ElementType::BF16 || type == ElementType::F16) {
    bytes.resize(values.size() * sizeof(uint16_t));
    std::vector<uint16_t> rounded(values.size());
    narrow(rounded.data(), values.data(), values.size(),
           type == ElementType::BF16 ? NarrowType::Bf16 : NarrowType::F16);
    std::memcpy(bytes.data(), rounded.data(), bytes.size());
  } else if (type == ElementType::F64) {
    const std::vector<double> wide(values.begin(), values.end());
    bytes.resize(wide.size() * sizeof(double));
    std::memcpy(bytes.data(), wide.data(), bytes.size());
  } else {
    bytes.resize(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

/// All elements of a tensor as a change leaves them.
static StatusOr<std::vector<float>> changedValues(const TensorView &tensor, const WeightChange &change) {
  const auto elements = uint64_t(tensor.count()), columns = uint64_t(tensor.columns());
  const WeightChange::Elements weight = [&](uint64_t begin, uint64_t count, float *out) {
    tensor.read(int64_t(begin), int64_t(count), out);
    return Status::ok();
  };
  std::vector<float> values = change.whole;
  if (values.empty()) {
    values.resize(elements);
    tensor.read(0, int64_t(elements), values.data());
  }
  change.apply(columns, 0, elements, values.data());
  ZTC_ASSIGN_OR_RETURN(const std::vector<float> factors, change.factors(weight, elements, columns));
  if (!factors.empty())
    change.multiply(factors, columns, 0, elements, values.data());
  return values;
}

StatusOr<MergedTensors> MergedTensors::open(const std::string &adapter, const std::string &base) {
  MergedTensors merged;
  ZTC_ASSIGN_OR_RETURN(AdapterChanges changes, AdapterChanges::open(adapter));
  if (StatusOr<std::string> config = readWholeFile(base + "/config.json"); config.isOk())
    changes.setModel(*config);
  ZTC_ASSIGN_OR_RETURN(SafetensorsCollection opened, SafetensorsCollection::open(base));
  merged.files.push_back(std::make_unique<SafetensorsCollection>(std::move(opened)));
  merged.tensors = importer::floatTensorsOf(*merged.files.front());
  for (TensorView &tensor : merged.tensors) {
    ZTC_ASSIGN_OR_RETURN(const std::optional<WeightChange> change,
                         changes.of(tensor.name, {tensor.shape.begin(), tensor.shape.end()}));
    if (!change)
      continue;
    ZTC_ASSIGN_OR_RETURN(const std::vector<float> values, changedValues(tensor, *change));
    const std::vector<char> &bytes = merged.made.emplace_back(bytesOf(values, tensor.type));
    tensor.bytes = {bytes.data(), bytes.size()};
    merged.changed.insert(tensor.name);
    if (!change->numbers.empty() && !change->rank && change->whole.empty())
      merged.ofRows.insert(tensor.name);
  }
  if (const std::vector<std::string> unread = changes.unread(); !unread.empty())
    return failedPrecondition(changes.file().path() + ": '" + unread.front() + "' changes no tensor of " + base +
                              ": is it an adapter of this model, with a table and a head of its own?");
  return StatusOr<MergedTensors>(std::move(merged));
}

} // namespace ztc::driver
