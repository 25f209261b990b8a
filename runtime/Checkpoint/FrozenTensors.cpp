#include "runtime/Checkpoint/FrozenTensors.h"
#include "runtime/Core/File.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>

namespace ztc {

/// Of one tensor that are held against each other at a time.
static constexpr uint64_t kPieceElements = uint64_t(1) << 18;

static float load(const std::byte *from, plan::DataType type) {
  if (type == plan::F32) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return type == plan::BF16 ? fromBf16(bits) : fromF16(bits);
}

static float rounded(float value, plan::DataType type) {
  return type == plan::BF16 ? fromBf16(toBf16(value)) : type == plan::F16 ? fromF16(toF16(value)) : value;
}

/// Whether `written` is `source`, both of `type`, as it looks after a stay in a slot of `slot`.
static bool isRounded(const std::byte *written, const std::byte *source, plan::DataType type, plan::DataType slot) {
  const float there = load(written, type), was = load(source, type);
  const float expected = rounded(rounded(was, slot), type);
  return std::bit_cast<uint32_t>(there) == std::bit_cast<uint32_t>(expected) || (there != there && was != was);
}

namespace {

/// The bytes that a parameter came from, in its own orientation.
class Source {
public:
  /// Of a checkpoint. None where it has no such tensor of this type.
  static std::optional<Source> of(const plan::Parameter &parameter, const SafetensorsCollection &checkpoint,
                                  plan::DataType type, uint64_t bytes) {
    const std::optional<SafetensorsCollection::Found> found = checkpoint.find(parameter);
    if (!found || found->tensor->type != type || found->tensor->bytes != bytes)
      return std::nullopt;
    return Source(found->file->data(*found->tensor), dataTypeBytes(type));
  }
  /// Of the file that the plan names, which may hold the transposed matrix.
  static std::optional<Source> of(const plan::Parameter &parameter, plan::DataType type, uint64_t bytes) {
    const plan::WeightSource &from = parameter.source();
    const bool isPlain = !from.has_shift() || from.shift() == 0;
    if (from.path().empty() || !isPlain || from.type() != type || from.length() != bytes || !pathExists(from.path()) ||
        (from.transpose() && parameter.shape_size() != 2))
      return std::nullopt;
    StatusOr<MappedFile> file = MappedFile::open(from.path());
    if (!file.isOk() || file->size() != from.file_size() || from.offset() > file->size() ||
        bytes > file->size() - from.offset())
      return std::nullopt;
    Source source(file->bytes().subspan(from.offset(), bytes), dataTypeBytes(type));
    source.file_.emplace(std::move(*file));
    if (from.transpose()) {
      source.rows_ = uint64_t(parameter.shape(0));
      source.columns_ = uint64_t(parameter.shape(1));
    }
    return source;
  }

  void read(uint64_t begin, uint64_t count, std::byte *to) const {
    if (!columns_) {
      std::memcpy(to, bytes_.data() + begin * size_, count * size_);
      return;
    }
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = (begin + i) % columns_ * rows_ + (begin + i) / columns_;
      std::memcpy(to + i * size_, bytes_.data() + at * size_, size_);
    }
  }

private:
  Source(std::span<const std::byte> bytes, uint64_t size) : bytes_(bytes), size_(size) {}

  std::optional<MappedFile> file_; ///< where it is not the checkpoint's
  std::span<const std::byte> bytes_;
  uint64_t size_;                   ///< of an element
  uint64_t rows_ = 0, columns_ = 0; ///< of the parameter, where the file has the transposed matrix
};

/// Whether what was written is the source's, as the plan's slot holds it; then the source's bytes replace it.
Status restore(const File &file, const PlannedTensor &tensor, const Source &source, plan::DataType slot) {
  const uint64_t size = dataTypeBytes(tensor.type), most = std::min(tensor.elements, kPieceElements);
  std::vector<std::byte> written(most * size), original(most * size);
  for (uint64_t begin = 0; begin < tensor.elements; begin += kPieceElements) {
    const uint64_t count = std::min(kPieceElements, tensor.elements - begin);
    ZTC_RETURN_IF_ERROR(file.readAt(tensor.fileOffset + begin * size, written.data(), count * size));
    source.read(begin, count, original.data());
    for (uint64_t i = 0; i < count; ++i)
      if (!isRounded(written.data() + i * size, original.data() + i * size, tensor.type, slot))
        return Status::ok();
  }
  for (uint64_t begin = 0; begin < tensor.elements; begin += kPieceElements) {
    const uint64_t count = std::min(kPieceElements, tensor.elements - begin);
    source.read(begin, count, original.data());
    ZTC_RETURN_IF_ERROR(file.writeAt(tensor.fileOffset + begin * size, original.data(), count * size));
  }
  return file.sync();
}

} // namespace

Status restoreFrozenTensors(const plan::Plan &plan, const SafetensorsCollection *checkpoint, const PlannedFile &planned,
                            const std::string &path) {
  for (const PlannedTensor &tensor : planned.tensors) {
    const plan::Parameter &parameter = *tensor.parameter;
    const plan::DataType slot = plan.slots(int(plan.buckets(int(parameter.bucket())).parameter_slot())).type();
    const bool isFloat = tensor.type == plan::F32 || tensor.type == plan::BF16 || tensor.type == plan::F16;
    if (parameter.trainable() || slot == tensor.type || slot == plan::F32 || !isFloat)
      continue;
    const uint64_t bytes = tensor.elements * dataTypeBytes(tensor.type);
    const std::optional<Source> source =
        checkpoint ? Source::of(parameter, *checkpoint, tensor.type, bytes) : Source::of(parameter, tensor.type, bytes);
    if (!source)
      continue;
    ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::ReadWrite));
    ZTC_RETURN_IF_ERROR(restore(file, tensor, *source, slot));
  }
  return Status::ok();
}

} // namespace ztc
