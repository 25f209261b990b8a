#include "runtime/Format/Safetensors.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <set>

namespace ztc {

using HeaderJson = nlohmann::json; // sorted: an ordered one looks through all names for each

static_assert(std::endian::native == std::endian::little, "tensor data is little-endian and used as it lies");

/// A header above this is refused by the reference implementation too.
static constexpr uint64_t kLargestHeader = 100'000'000;

namespace {
struct TypeName {
  const char *name;
  plan::DataType type; ///< unspecified: known to the format, not to plans
  uint64_t bytes;
};
} // namespace

static constexpr TypeName kTypes[] = {
    {"F64", plan::F64, 8},
    {"F32", plan::F32, 4},
    {"F16", plan::F16, 2},
    {"BF16", plan::BF16, 2},
    {"I64", plan::I64, 8},
    {"I32", plan::I32, 4},
    {"I16", plan::I16, 2},
    {"BOOL", plan::I1, 1},
    {"U64", plan::DATA_TYPE_UNSPECIFIED, 8},
    {"U32", plan::DATA_TYPE_UNSPECIFIED, 4},
    {"U16", plan::DATA_TYPE_UNSPECIFIED, 2},
    {"I8", plan::DATA_TYPE_UNSPECIFIED, 1},
    {"U8", plan::DATA_TYPE_UNSPECIFIED, 1},
    {"F8_E4M3", plan::DATA_TYPE_UNSPECIFIED, 1},
    {"F8_E5M2", plan::DATA_TYPE_UNSPECIFIED, 1},
    {"F8_E8M0", plan::DATA_TYPE_UNSPECIFIED, 1},
};

const char *safetensorsTypeName(plan::DataType type) {
  for (const TypeName &entry : kTypes)
    if (entry.type == type && type != plan::DATA_TYPE_UNSPECIFIED)
      return entry.name;
  return "";
}

/// A member that is a whole number from 0.
static std::optional<uint64_t> unsignedNumber(const HeaderJson &value) {
  if (const auto *number = value.get_ptr<const HeaderJson::number_unsigned_t *>())
    return *number;
  return std::nullopt;
}

static StatusOr<SafetensorsTensor> parseTensor(const std::string &name, const HeaderJson &json, uint64_t dataBegin,
                                               uint64_t dataBytes, const std::string &path) {
  const auto bad = [&](const std::string &why) {
    return dataLoss(fmt::format("'{}' is not a valid safetensors file: tensor '{}': {}", path, name, why));
  };
  if (!json.is_object())
    return bad("its entry is not an object");
  const auto type = json.find("dtype"), shape = json.find("shape"), offsets = json.find("data_offsets");
  if (type == json.end() || !type->is_string() || shape == json.end() || !shape->is_array() || offsets == json.end() ||
      !offsets->is_array() || offsets->size() != 2)
    return bad("dtype, shape or data_offsets is missing");
  SafetensorsTensor tensor;
  tensor.name = name;
  tensor.typeName = *type->get_ptr<const std::string *>();
  for (const HeaderJson &extent : *shape) {
    const std::optional<uint64_t> number = unsignedNumber(extent);
    if (!number || *number > (uint64_t(1) << 62))
      return bad("a dimension is not a whole number from 0");
    tensor.shape.push_back(static_cast<int64_t>(*number));
  }
  const std::optional<uint64_t> count = elementCount(tensor.shape);
  const std::optional<uint64_t> begin = unsignedNumber((*offsets)[0]), end = unsignedNumber((*offsets)[1]);
  if (!count)
    return bad("its shape overflows");
  if (!begin || !end || *begin > *end)
    return bad("its data_offsets are not a range");
  if (*end > dataBytes)
    return dataLoss(fmt::format("'{}' is truncated: tensor '{}' ends at byte {}, the file at {}", path, name,
                                dataBegin + *end, dataBegin + dataBytes));
  tensor.offset = dataBegin + *begin;
  tensor.bytes = *end - *begin;
  for (const TypeName &entry : kTypes) {
    if (tensor.typeName != entry.name)
      continue;
    tensor.type = entry.type;
    uint64_t needed = 0;
    if (__builtin_mul_overflow(*count, entry.bytes, &needed) || needed != tensor.bytes)
      return bad(fmt::format("{} bytes for {} elements of {}", tensor.bytes, *count, tensor.typeName));
  }
  return tensor;
}

/// The value of a header, and in `twice` the first key that stands in an object for a second time: which of the two
/// counts is for each reader to choose.
static HeaderJson parseHeader(std::string_view text, std::optional<std::string> &twice) {
  if (isJsonTooDeep(text))
    return HeaderJson(nlohmann::detail::value_t::discarded);
  std::vector<std::set<std::string>> keys;
  const auto look = [&](int, HeaderJson::parse_event_t event, HeaderJson &parsed) {
    if (event == HeaderJson::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == HeaderJson::parse_event_t::object_end)
      keys.pop_back();
    else if (event == HeaderJson::parse_event_t::key &&
             !keys.back().insert(*parsed.get_ptr<const std::string *>()).second)
      twice = twice.value_or(*parsed.get_ptr<const std::string *>());
    return true;
  };
  return HeaderJson::parse(text, look, /*allow_exceptions=*/false);
}

StatusOr<std::vector<SafetensorsTensor>> parseSafetensorsHeader(std::span<const std::byte> head, uint64_t fileSize,
                                                                const std::string &path) {
  if (fileSize < 8 || head.size() < 8)
    return dataLoss(fmt::format("'{}' is not a safetensors file: it has {} bytes", path, fileSize));
  uint64_t length = 0;
  std::memcpy(&length, head.data(), 8);
  if (length > kLargestHeader)
    return dataLoss(fmt::format("'{}' is not a safetensors file: a header of {} bytes", path, length));
  if (length > fileSize - 8 || length > head.size() - 8)
    return dataLoss(fmt::format("'{}' is truncated: its header has {} bytes, the file {}", path, length, fileSize));
  const auto *text = reinterpret_cast<const char *>(head.data()) + 8;
  std::optional<std::string> twice;
  const HeaderJson json = parseHeader({text, length}, twice);
  if (!json.is_object())
    return dataLoss(fmt::format("'{}' is not a valid safetensors file: its header is not a JSON object", path));
  if (twice)
    return dataLoss(fmt::format("'{}' is not a valid safetensors file: '{}' stands twice in its header", path, *twice));
  std::vector<SafetensorsTensor> tensors;
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (it.key() == "__metadata__")
      continue;
    ZTC_ASSIGN_OR_RETURN(SafetensorsTensor tensor,
                         parseTensor(it.key(), it.value(), 8 + length, fileSize - 8 - length, path));
    tensors.push_back(std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor &a, const SafetensorsTensor &b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes != b.bytes ? a.bytes < b.bytes : a.name < b.name;
  });
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].offset < tensors[i - 1].offset + tensors[i - 1].bytes)
      return dataLoss(fmt::format("'{}' is not a valid safetensors file: tensors '{}' and '{}' overlap", path,
                                  tensors[i - 1].name, tensors[i].name));
  // As the reference implementation asks: every byte belongs to a tensor.
  uint64_t covered = 8 + length;
  for (const SafetensorsTensor &tensor : tensors) {
    if (tensor.offset != covered)
      break;
    covered += tensor.bytes;
  }
  if (covered != fileSize)
    return dataLoss(
        fmt::format("'{}' is not a valid safetensors file: the bytes from {} belong to no tensor, or a tensor "
                    "stands twice in its header",
                    path, covered));
  return tensors;
}

SafetensorsFile::SafetensorsFile(MappedFile file, std::vector<SafetensorsTensor> tensors)
    : file_(std::move(file)), tensors_(std::move(tensors)) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    byName_.emplace(tensors_[i].name, i);
}

StatusOr<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  ZTC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  ZTC_ASSIGN_OR_RETURN(std::vector<SafetensorsTensor> tensors, parseSafetensorsHeader(file.bytes(), file.size(), path));
  return SafetensorsFile(std::move(file), std::move(tensors));
}

const SafetensorsTensor *SafetensorsFile::find(std::string_view name) const {
  const auto it = byName_.find(name);
  return it == byName_.end() ? nullptr : &tensors_[it->second];
}

/// File names by tensor name of an index.
static StatusOr<std::map<std::string, std::string>> readIndex(const std::string &path) {
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  const HeaderJson json = parseJson<HeaderJson>(text);
  const auto bad = [&](const std::string &why) {
    return dataLoss(fmt::format("'{}' is not a valid index: {}", path, why));
  };
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return bad("it has no weight_map");
  std::map<std::string, std::string> files;
  for (auto it = json["weight_map"].begin(); it != json["weight_map"].end(); ++it) {
    const auto *file = it.value().get_ptr<const std::string *>();
    // A shard lies beside its index: a name that leads elsewhere does not name a shard.
    if (!file || file->empty() || file->find('/') != std::string::npos || file->find('\0') != std::string::npos)
      return bad(fmt::format("the file of tensor '{}' is not a file name", it.key()));
    files.emplace(it.key(), *file);
  }
  return files;
}

StatusOr<SafetensorsCollection> SafetensorsCollection::open(const std::string &fileOrFolder, const std::string &stem) {
  SafetensorsCollection collection;
  const auto add = [&](const std::string &path) -> Status {
    ZTC_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
    collection.files_.push_back(std::make_unique<SafetensorsFile>(std::move(file)));
    return Status::ok();
  };
  const std::string single = isFolder(fileOrFolder) ? fileOrFolder + "/" + stem + ".safetensors" : fileOrFolder;
  const std::string index = fileOrFolder + "/" + stem + ".safetensors.index.json";
  if (!isFolder(fileOrFolder) || !pathExists(index)) {
    if (isFolder(fileOrFolder) && !pathExists(single))
      return notFound(fmt::format("the folder '{}' has neither {}.safetensors nor {}.safetensors.index.json",
                                  fileOrFolder, stem, stem));
    ZTC_RETURN_IF_ERROR(add(single));
    for (const SafetensorsTensor &tensor : collection.files_[0]->tensors())
      collection.fileOfName_.emplace(tensor.name, 0);
    return collection;
  }
  ZTC_ASSIGN_OR_RETURN(const auto fileNames, readIndex(index));
  std::map<std::string, size_t> opened;
  for (const auto &[tensor, fileName] : fileNames) {
    const auto [it, isNew] = opened.emplace(fileName, collection.files_.size());
    if (isNew)
      ZTC_RETURN_IF_ERROR(add(fileOrFolder + "/" + fileName));
    if (!collection.files_[it->second]->find(tensor))
      return dataLoss(
          fmt::format("'{}' says that '{}' holds the tensor '{}', which is not there", index, fileName, tensor));
    collection.fileOfName_.emplace(tensor, it->second);
  }
  return collection;
}

std::optional<SafetensorsCollection::Found> SafetensorsCollection::find(std::string_view name) const {
  const auto it = fileOfName_.find(name);
  if (it == fileOfName_.end())
    return std::nullopt;
  const SafetensorsFile *file = files_[it->second].get();
  return Found{file, file->find(name)};
}

std::optional<SafetensorsCollection::Found> SafetensorsCollection::find(const plan::Parameter &parameter) const {
  std::optional<Found> found = find(parameter.name());
  for (int i = 0; i < parameter.tied_size() && !found; ++i)
    found = find(parameter.tied(i));
  return found;
}

bool SafetensorsCollection::hasModule(std::string_view module) const {
  const std::string below = std::string(module) + ".";
  const auto it = fileOfName_.lower_bound(below);
  return it != fileOfName_.end() && it->first.starts_with(below);
}

SafetensorsLayout layoutSafetensors(const std::vector<SafetensorsSpec> &specs) {
  SafetensorsLayout layout;
  // Written by hand: the header keeps the order of the data, and nothing depends on a JSON library's taste.
  std::string header = R"({"__metadata__":{"format":"pt"})";
  uint64_t data = 0;
  for (const SafetensorsSpec &spec : specs) {
    const bool isKnown = spec.typeName.empty();
    const uint64_t bytes = isKnown ? elementCount(spec.shape).value_or(0) * dataTypeBytes(spec.type) : spec.bytes;
    header += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          HeaderJson(spec.name).dump(-1, ' ', false, HeaderJson::error_handler_t::replace),
                          isKnown ? safetensorsTypeName(spec.type) : spec.typeName.c_str(), fmt::join(spec.shape, ","),
                          data, data + bytes);
    layout.offsets.push_back(data);
    data += bytes;
  }
  header += '}';
  header.resize(roundUp(header.size(), 8), ' ');
  const uint64_t length = header.size();
  layout.header.resize(8);
  std::memcpy(layout.header.data(), &length, 8);
  layout.header += header;
  for (uint64_t &offset : layout.offsets)
    offset += layout.header.size();
  layout.fileBytes = layout.header.size() + data;
  return layout;
}

} // namespace ztc
