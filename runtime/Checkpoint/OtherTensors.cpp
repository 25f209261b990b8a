#include "runtime/Checkpoint/OtherTensors.h"
#include "runtime/Checkpoint/QuantizedTensors.h"
#include "runtime/Core/FloatArrays.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstring>
#include <set>

namespace ztc {

using Found = SafetensorsCollection::Found;

static std::span<const std::byte> bytesOf(const Found &found) {
  return found.file->data(*found.tensor);
}

static Status writeDequantized(const QuantizedMatrix &matrix, plan::DataType type, const File &to, uint64_t offset) {
  constexpr uint64_t kPiece = uint64_t(1) << 20;
  std::vector<float> values(std::min(kPiece, matrix.elements()));
  for (uint64_t begin = 0; begin < matrix.elements(); begin += kPiece) {
    const uint64_t count = std::min(kPiece, matrix.elements() - begin), size = dataTypeBytes(type);
    matrix.read(begin, count, values.data());
    if (const std::optional<NarrowType> narrowType = narrowDataType(type))
      narrow(reinterpret_cast<uint16_t *>(values.data()), values.data(), count, *narrowType);
    ZTC_RETURN_IF_ERROR(to.writeAt(offset + begin * size, values.data(), count * size));
  }
  return Status::ok();
}

Status CopiedFile::write(const File &to) const {
  ZTC_RETURN_IF_ERROR(to.writeAt(0, layout.header.data(), layout.header.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const CopiedTensor &tensor = tensors[i];
    ZTC_RETURN_IF_ERROR(tensor.quantized ? writeDequantized(*tensor.quantized, tensor.spec.type, to, layout.offsets[i])
                                         : to.writeAt(layout.offsets[i], tensor.bytes.data(), tensor.bytes.size()));
  }
  return Status::ok();
}

static bool repeats(const Found &found, const std::vector<Found> &parameters) {
  const SafetensorsTensor &tensor = *found.tensor;
  return tensor.shape.size() >= 2 && std::ranges::any_of(parameters, [&](const Found &parameter) {
           return parameter.tensor->shape == tensor.shape && parameter.tensor->typeName == tensor.typeName &&
                  std::ranges::equal(bytesOf(parameter), bytesOf(found));
         });
}

StatusOr<OtherTensors> OtherTensors::open(const plan::Plan &plan, const std::string &weights) {
  OtherTensors others;
  const QuantizationConfig config = quantizationConfigOf(weights);
  ZTC_ASSIGN_OR_RETURN(others.checkpoint_, QuantizedCheckpoint::open(weights, "model", config));
  const SafetensorsCollection &files = others.checkpoint_->files;
  const QuantizedMatrices &matrices = others.checkpoint_->matrices;
  std::set<std::string, std::less<>> names;
  std::vector<Found> parameters;
  // X.weight.absmax and its like belong to X.weight, which is written whole.
  const auto isPartOfQuantized = [&](const std::string &name) {
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (names.contains(std::string_view(name).substr(0, dot)))
        return true;
    return name.ends_with(".SCB") && names.contains(name.substr(0, name.size() - 4) + ".weight");
  };
  bool hasParameters = false;
  const auto know = [&](const std::string &name) {
    names.insert(name);
    hasParameters |= matrices.find(name) != nullptr;
    if (const std::optional<Found> found = files.find(name))
      parameters.push_back(*found);
  };
  for (const plan::Parameter &parameter : plan.parameters()) {
    know(parameter.name());
    for (const std::string &tied : parameter.tied())
      know(tied);
  }
  if (parameters.empty() && !hasParameters)
    return OtherTensors();
  for (const auto &file : files.files())
    for (const SafetensorsTensor &tensor : file->tensors())
      if (const Found found{file.get(), &tensor}; !names.contains(tensor.name) && !matrices.isPart(tensor.name) &&
                                                  !isPartOfQuantized(tensor.name) && !repeats(found, parameters))
        others.tensors_.push_back(
            {{tensor.name, tensor.type, tensor.shape, tensor.typeName, tensor.bytes}, bytesOf(found)});
  for (const auto &[name, matrix] : matrices.all()) {
    if (names.contains(name) || !matrix.problem.empty())
      continue;
    others.tensors_.push_back({{name, config.type, matrix.shape}, {}, &matrix});
  }
  std::ranges::sort(others.tensors_, {}, [](const CopiedTensor &tensor) { return tensor.spec.name; });
  return others;
}

std::vector<CopiedFile> OtherTensors::files(uint64_t largestFileBytes) const {
  std::vector<CopiedFile> files;
  for (const CopiedTensor &tensor : tensors_) {
    const uint64_t bytes =
        tensor.quantized ? tensor.quantized->elements() * dataTypeBytes(tensor.spec.type) : tensor.bytes.size();
    if (files.empty() || (files.back().tensorBytes && files.back().tensorBytes + bytes > largestFileBytes))
      files.emplace_back();
    files.back().tensors.push_back(tensor);
    files.back().tensorBytes += bytes;
  }
  for (CopiedFile &file : files) {
    std::vector<SafetensorsSpec> specs;
    for (const CopiedTensor &tensor : file.tensors)
      specs.push_back(tensor.spec);
    file.layout = layoutSafetensors(specs);
  }
  return files;
}

} // namespace ztc
