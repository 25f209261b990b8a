// Tensors in files beside the model: mapped when their elements are needed, not before.
#include "frontends/onnx/Model.h"
#include "runtime/Core/File.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using llvm::StringRef;

namespace ztc::importer {

ExternalFiles::ExternalFiles(std::string folder) : folder(std::move(folder)) {}
ExternalFiles::~ExternalFiles() = default;

/// Where links lead `path` to, if that is out of `folder`; else empty.
static std::string linkTarget(StringRef path, StringRef folder) {
  llvm::SmallString<256> realPath, realFolder;
  if (llvm::sys::fs::real_path(path, realPath) ||
      llvm::sys::fs::real_path(folder.empty() ? StringRef(".") : folder, realFolder))
    return ""; // not there: that is said where it is opened
  StringRef rest(realPath);
  return rest.consume_front(realFolder) && rest.starts_with("/") ? "" : std::string(realPath);
}

void noteLinks(Model &model) {
  StringRef folder = llvm::sys::path::parent_path(model.path);
  llvm::StringSet<> seen;
  for (const Initializer &initializer : model.initializers) {
    if (!initializer.isExternal || !seen.insert(initializer.location).second)
      continue;
    llvm::SmallString<256> path(folder);
    llvm::sys::path::append(path, initializer.location);
    if (std::string target = linkTarget(path, folder); !target.empty())
      model.notes.push_back("external data " + std::string(path) + " is a link out of the model's folder, to " +
                            target);
  }
}

StringRef ExternalFiles::bytesOf(const Initializer &initializer, std::string &error) {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, initializer.location);
  auto [file, isNew] = files.try_emplace(path);
  if (isNew) {
    StatusOr<MappedFile> mapped = MappedFile::open(std::string(path));
    if (mapped.isOk())
      file->second = std::make_unique<MappedFile>(std::move(*mapped));
    else if (mapped.status().code() != StatusCode::NotFound) {
      error = "the value of '" + initializer.name + "' is needed: " + mapped.status().message();
      return {};
    }
  }
  if (!file->second) {
    error = "the value of '" + initializer.name + "' is needed, but its external data " + std::string(path) +
            " is not there: put the file back beside the model, or export again";
    return {};
  }
  StringRef bytes(reinterpret_cast<const char *>(file->second->bytes().data()), file->second->size());
  if (initializer.offset > bytes.size() || initializer.length > bytes.size() - initializer.offset) {
    error = "external data " + std::string(path) + " is truncated: it has " + std::to_string(bytes.size()) +
            " bytes, '" + initializer.name + "' ends at " + std::to_string(initializer.offset + initializer.length);
    return {};
  }
  return bytes.substr(initializer.offset, initializer.length);
}

StringRef Model::bytesOf(const Initializer &initializer, std::string &error) const {
  if (initializer.quantized) {
    error = "the value of '" + initializer.name + "' is needed, and the file has it in " +
            initializer.quantized->format() + ", of which ztc reads only weights of products and tables";
    return {};
  }
  if (!elementBytes(initializer.type)) {
    error = "the value of '" + initializer.name + "' is needed, and has type " + elementName(initializer.type).str() +
            ", which ztc reads only as weights in fewer bits";
    return {};
  }
  if (!initializer.isExternal)
    return initializer.bytes;
  if (externalFiles)
    return externalFiles->bytesOf(initializer, error);
  error = "the value of '" + initializer.name + "' is in another file";
  return {};
}

bool Model::haveSameBytes(const Initializer &one, const Initializer &other) const {
  if (!one.quantized != !other.quantized)
    return false;
  if (one.quantized) {
    const QuantizedValues &a = *one.quantized, &b = *other.quantized;
    return a.rows == b.rows && a.columns == b.columns && a.bits == b.bits && a.isTransposed == b.isTransposed &&
           a.blockRows == b.blockRows && a.blockColumns == b.blockColumns && a.zero == b.zero &&
           a.zeros.name.empty() == b.zeros.name.empty() && haveSameBytes(a.codes, b.codes) &&
           haveSameBytes(a.scales, b.scales) && haveSameBytes(a.zeros, b.zeros);
  }
  // Codes are bytes, whatever their type.
  std::string unreadable;
  const auto bytes = [&](const Initializer &initializer) {
    return !initializer.isExternal ? initializer.bytes
           : externalFiles         ? externalFiles->bytesOf(initializer, unreadable)
                                   : StringRef();
  };
  return bytes(one) == bytes(other);
}

} // namespace ztc::importer
