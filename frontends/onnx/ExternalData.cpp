// Tensors in files beside the model: mapped when their elements are needed, not before.
#include "frontends/onnx/Model.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using llvm::StringRef;

namespace ztc::importer {

ExternalFiles::ExternalFiles(std::string folder) : folder(std::move(folder)) {}
ExternalFiles::~ExternalFiles() = default;

StringRef ExternalFiles::bytesOf(const Initializer &initializer, std::string &error) {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, initializer.location);
  auto [file, isNew] = files.try_emplace(path);
  if (isNew)
    if (auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false))
      file->second = std::move(*buffer);
  if (!file->second) {
    error = "the value of '" + initializer.name + "' is needed, but its external data " + std::string(path) +
            " is not there: put the file back beside the model, or export again";
    return {};
  }
  StringRef bytes = file->second->getBuffer();
  if (initializer.offset > bytes.size() || initializer.length > bytes.size() - initializer.offset) {
    error = "external data " + std::string(path) + " is truncated: it has " + std::to_string(bytes.size()) +
            " bytes, '" + initializer.name + "' ends at " + std::to_string(initializer.offset + initializer.length);
    return {};
  }
  return bytes.substr(initializer.offset, initializer.length);
}

StringRef Model::bytesOf(const Initializer &initializer, std::string &error) const {
  if (!initializer.isExternal)
    return initializer.bytes;
  if (externalFiles)
    return externalFiles->bytesOf(initializer, error);
  error = "the value of '" + initializer.name + "' is in another file";
  return {};
}

} // namespace ztc::importer
