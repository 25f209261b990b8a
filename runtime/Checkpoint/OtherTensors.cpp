#include "runtime/Checkpoint/OtherTensors.h"
#include <algorithm>
#include <cstring>
#include <set>

namespace ztc {

using Found = SafetensorsCollection::Found;

static std::span<const std::byte> bytesOf(const Found &found) {
  return found.file->data(*found.tensor);
}

Status CopiedFile::write(const File &to) const {
  ZTC_RETURN_IF_ERROR(to.writeAt(0, layout.header.data(), layout.header.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::span<const std::byte> bytes = bytesOf(tensors[i]);
    ZTC_RETURN_IF_ERROR(to.writeAt(layout.offsets[i], bytes.data(), bytes.size()));
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
  ZTC_ASSIGN_OR_RETURN(others.checkpoint_, SafetensorsCollection::open(weights));
  std::set<std::string, std::less<>> names;
  std::vector<Found> parameters;
  // X.weight.absmax and its like belong to X.weight, which is written whole.
  const auto isPartOfQuantized = [&](const std::string &name) {
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (names.contains(std::string_view(name).substr(0, dot)))
        return true;
    return name.ends_with(".SCB") && names.contains(name.substr(0, name.size() - 4) + ".weight");
  };
  const auto know = [&](const std::string &name) {
    names.insert(name);
    if (const std::optional<Found> found = others.checkpoint_->find(name))
      parameters.push_back(*found);
  };
  for (const plan::Parameter &parameter : plan.parameters()) {
    know(parameter.name());
    for (const std::string &tied : parameter.tied())
      know(tied);
  }
  if (parameters.empty())
    return OtherTensors();
  for (const auto &file : others.checkpoint_->files())
    for (const SafetensorsTensor &tensor : file->tensors())
      if (const Found found{file.get(), &tensor};
          !names.contains(tensor.name) && !isPartOfQuantized(tensor.name) && !repeats(found, parameters))
        others.tensors_.push_back(found);
  std::ranges::sort(others.tensors_, {}, [](const Found &found) { return found.tensor->name; });
  return others;
}

std::vector<CopiedFile> OtherTensors::files(uint64_t largestFileBytes) const {
  std::vector<CopiedFile> files;
  for (const Found &found : tensors_) {
    if (files.empty() ||
        (files.back().tensorBytes && files.back().tensorBytes + found.tensor->bytes > largestFileBytes))
      files.emplace_back();
    files.back().tensors.push_back(found);
    files.back().tensorBytes += found.tensor->bytes;
  }
  for (CopiedFile &file : files) {
    std::vector<SafetensorsSpec> specs;
    for (const Found &found : file.tensors)
      specs.push_back(
          {found.tensor->name, found.tensor->type, found.tensor->shape, found.tensor->typeName, found.tensor->bytes});
    file.layout = layoutSafetensors(specs);
  }
  return files;
}

} // namespace ztc
