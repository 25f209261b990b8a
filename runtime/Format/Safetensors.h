// safetensors: u64 header length, JSON header, data. Reading with every bound checked, and writing by layout: offsets
// are known before the first byte of data, so that anyone can write any range in any order.
#pragma once
#include "runtime/Core/File.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// One tensor of a header.
struct SafetensorsTensor {
  std::string name;
  std::string typeName; ///< as the file says: "F32", "BF16", "I64", ...
  plan::DataType type =
      plan::DATA_TYPE_UNSPECIFIED; ///< unspecified where the plan format has no such type (F8_E4M3, ...)
  std::vector<int64_t> shape;
  uint64_t offset = 0; ///< of its first byte in the file
  uint64_t bytes = 0;
};

/// Parses the head of a file of `fileSize` bytes; `head` holds its first bytes, at least the header. Messages name
/// `path`. Afterwards every tensor lies inside the file, has the bytes that its type and shape ask for, and overlaps no
/// other. Tensors are in the order of their offsets.
StatusOr<std::vector<SafetensorsTensor>> parseSafetensorsHeader(std::span<const std::byte> head, uint64_t fileSize,
                                                                const std::string &path);

/// One file, mapped.
class SafetensorsFile {
public:
  static StatusOr<SafetensorsFile> open(const std::string &path);
  const std::vector<SafetensorsTensor> &tensors() const { return tensors_; }
  /// Null where there is none.
  const SafetensorsTensor *find(std::string_view name) const;
  std::span<const std::byte> data(const SafetensorsTensor &tensor) const {
    return file_.bytes().subspan(tensor.offset, tensor.bytes);
  }
  const std::string &path() const { return file_.path(); }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  const MappedFile &mapped() const { return file_; }

private:
  SafetensorsFile(MappedFile file, std::vector<SafetensorsTensor> tensors);
  MappedFile file_;
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, size_t, std::less<>> byName_;
};

/// A file, or a Hugging Face folder: the shards of model.safetensors.index.json, else model.safetensors.
/// A tensor that the index promises and its shard lacks is an error.
class SafetensorsCollection {
public:
  struct Found {
    const SafetensorsFile *file;
    const SafetensorsTensor *tensor;
  };
  /// `stem` names the files in a folder: "<stem>.safetensors", "<stem>.safetensors.index.json".
  static StatusOr<SafetensorsCollection> open(const std::string &fileOrFolder, const std::string &stem = "model");
  std::optional<Found> find(std::string_view name) const;
  /// A parameter by its own name, or else by the first of its tied names that is there.
  std::optional<Found> find(const plan::Parameter &parameter) const;
  /// Whether a tensor's name is `module`, a dot and more.
  bool hasModule(std::string_view module) const;
  const std::vector<std::unique_ptr<SafetensorsFile>> &files() const { return files_; }

private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, size_t, std::less<>> fileOfName_;
};

/// What a file is laid out from.
struct SafetensorsSpec {
  std::string name;
  plan::DataType type = plan::F32;
  std::vector<int64_t> shape;
  /// Where the bytes of another file go on as they are: its name of the type, which the plan format may lack, and their
  /// number.
  std::string typeName = {};
  uint64_t bytes = 0;
};

/// A file before its data.
struct SafetensorsLayout {
  std::string header;            ///< the file's first bytes: length, JSON, spaces up to a multiple of 8
  std::vector<uint64_t> offsets; ///< in the file, by spec as given
  uint64_t fileBytes = 0;
};

/// Tensors lie in the order given, their names in the header too; __metadata__ is {"format": "pt"}. Equal specs give
/// equal bytes.
SafetensorsLayout layoutSafetensors(const std::vector<SafetensorsSpec> &specs);

/// "F32", "BF16", ... of a type that safetensors has.
const char *safetensorsTypeName(plan::DataType type);

} // namespace ztc
