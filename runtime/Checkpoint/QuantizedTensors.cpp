#include "runtime/Checkpoint/QuantizedTensors.h"
#include "runtime/Core/Json.h"
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

/// X.weight has its scales in X.SCB.
std::string scalesOfRows(const std::string &weight) {
  return weight.substr(0, weight.rfind('.')) + ".SCB";
}

/// The parts of one weight, and where they go.
class QuantizedReader {
public:
  QuantizedReader(const SafetensorsCollection &files, std::string name, const QuantizedLayout &layout)
      : files_(files), name_(std::move(name)), layout_(layout), bytes_(layout.bytes) {}

  StatusOr<std::vector<std::byte>> read() {
    if (layout_.format == plan::INT8) {
      ZTC_RETURN_IF_ERROR(copy(name_, "I8", layout_.elements(), 0));
      ZTC_RETURN_IF_ERROR(copy(scalesOfRows(name_), "F32", layout_.rows * sizeof(float), layout_.scales));
      return std::move(bytes_);
    }
    ZTC_RETURN_IF_ERROR(readState());
    ZTC_RETURN_IF_ERROR(copy(name_, nullptr, (layout_.elements() + 1) / 2, 0));
    ZTC_RETURN_IF_ERROR(copy(name_ + ".quant_map", "F32", kNf4Map * sizeof(float), layout_.map));
    if (layout_.format == plan::NF4_SINGLE) {
      ZTC_RETURN_IF_ERROR(copy(name_ + ".absmax", "F32", layout_.blocks() * sizeof(float), layout_.scales));
      return std::move(bytes_);
    }
    ZTC_RETURN_IF_ERROR(copy(name_ + ".absmax", "U8", layout_.blocks(), layout_.scales));
    ZTC_RETURN_IF_ERROR(
        copy(name_ + ".nested_absmax", "F32", layout_.nestedBlocks() * sizeof(float), layout_.nestedScales));
    ZTC_RETURN_IF_ERROR(copy(name_ + ".nested_quant_map", "F32", kNestedMap * sizeof(float), layout_.nestedMap));
    return std::move(bytes_);
  }

private:
  Status readState() {
    const std::string tensor = name_ + kNf4State;
    const std::optional<SafetensorsCollection::Found> found = files_.find(tensor);
    if (!found)
      return notFound(fmt::format("'{}' is missing: '{}' is not in nf4", tensor, name_));
    const std::span<const std::byte> data = found->file->data(*found->tensor);
    const nlohmann::json state = parseJson(std::string(reinterpret_cast<const char *>(data.data()), data.size()));
    const auto refuse = [&](const char *what) {
      return failedPrecondition(fmt::format("'{}': '{}' {}", found->file->path(), tensor, what));
    };
    if (!state.is_object())
      return refuse("is not a JSON object");
    const auto integer = [&](const char *key) {
      const auto at = state.find(key);
      return at != state.end() && at->is_number_integer() ? at->get<int64_t>() : int64_t(-1);
    };
    if (integer("blocksize") != int64_t(kNf4Block))
      return refuse("has blocks of another size than 64");
    const bool isSingle = layout_.format == plan::NF4_SINGLE;
    if (isSingle && state.contains("nested_blocksize"))
      return refuse("has scales in 8 bits (bnb_4bit_use_double_quant), and the plan was compiled for scales as they "
                    "are; compile again with this folder");
    if (!isSingle && integer("nested_blocksize") != int64_t(kNestedBlock))
      return refuse("has no scales in 8 bits in blocks of 256 (bnb_4bit_use_double_quant)");
    const auto shape = state.find("shape");
    if (shape == state.end() || *shape != nlohmann::json({layout_.rows, layout_.columns}))
      return refuse("has another shape than the model needs");
    if (isSingle)
      return Status::ok();
    const auto mean = state.find("nested_offset");
    if (mean == state.end() || !mean->is_number())
      return refuse("has no nested_offset");
    const auto value = mean->get<float>();
    std::memcpy(bytes_.data() + layout_.mean, &value, sizeof value);
    return Status::ok();
  }

  /// `type`: null for whatever bytes are stored as.
  Status copy(const std::string &name, const char *type, uint64_t bytes, uint64_t offset) {
    const std::optional<SafetensorsCollection::Found> found = files_.find(name);
    if (!found)
      return notFound(fmt::format("'{}' is missing", name));
    const SafetensorsTensor &tensor = *found->tensor;
    if (tensor.bytes != bytes || (type && tensor.typeName != type))
      return failedPrecondition(fmt::format("'{}': '{}' has {} bytes of {}, a matrix [{}, {}] in {} needs {}{}",
                                            found->file->path(), name, tensor.bytes, tensor.typeName, layout_.rows,
                                            layout_.columns, weightFormatName(layout_.format), bytes,
                                            type ? fmt::format(" of {}", type) : ""));
    std::memcpy(bytes_.data() + offset, found->file->data(tensor).data(), bytes);
    return Status::ok();
  }

  const SafetensorsCollection &files_;
  const std::string name_;
  const QuantizedLayout layout_;
  std::vector<std::byte> bytes_;
};

} // namespace

StatusOr<std::shared_ptr<const QuantizedCheckpoint>>
QuantizedCheckpoint::open(const std::string &path, const std::string &stem, const QuantizationConfig &config) {
  ZTC_ASSIGN_OR_RETURN(SafetensorsCollection files, SafetensorsCollection::open(path, stem));
  const auto checkpoint = std::make_shared<QuantizedCheckpoint>(QuantizedCheckpoint{std::move(files), {}});
  checkpoint->matrices = QuantizedMatrices(checkpoint->files, config);
  return std::shared_ptr<const QuantizedCheckpoint>(checkpoint);
}

StatusOr<std::shared_ptr<const QuantizedMatrix>>
findQuantized(const std::shared_ptr<const QuantizedCheckpoint> &checkpoint, const plan::Parameter &parameter) {
  const QuantizedMatrix *found = checkpoint->matrices.find(parameter);
  if (!found)
    return std::shared_ptr<const QuantizedMatrix>();
  const std::string &path = found->codes.file->path();
  if (!found->problem.empty())
    return failedPrecondition(fmt::format("'{}': {}", path, found->problem));
  const auto &shape = checkpointShape(parameter);
  if (!std::equal(found->shape.begin(), found->shape.end(), shape.begin(), shape.end()))
    return failedPrecondition(fmt::format("'{}': '{}' has the shape [{}] in {}, the model needs [{}]", path,
                                          found->name, fmt::join(found->shape, ", "), found->format,
                                          fmt::join(shape, ", ")));
  return std::shared_ptr<const QuantizedMatrix>(checkpoint, found);
}

bool isQuantized(const SafetensorsCollection &files, const SafetensorsTensor &tensor) {
  return tensor.typeName == "U8" || tensor.typeName == "I8" || files.find(tensor.name + kNf4State);
}

StatusOr<std::vector<std::byte>> readQuantized(const SafetensorsCollection &files, const plan::Parameter &parameter) {
  const std::optional<QuantizedLayout> layout = quantizedLayout(parameter);
  if (!layout)
    return failedPrecondition(fmt::format("'{}' is stored in fewer bits, the plan does not hold it so; compile again "
                                          "with this model, or give full weights",
                                          parameter.name()));
  return QuantizedReader(files, parameter.name(), *layout).read();
}

} // namespace ztc
