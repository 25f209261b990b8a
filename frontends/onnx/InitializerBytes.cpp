#include "frontends/onnx/InitializerBytes.h"
#include "llvm/Support/Path.h"

namespace ztc::importer {

llvm::StringRef InitializerBytes::of(const Initializer &initializer) {
  if (!initializer.isExternal)
    return initializer.bytes;
  auto [place, isNew] = files.try_emplace(initializer.location);
  if (isNew) {
    llvm::SmallString<256> path(llvm::sys::path::parent_path(model.path));
    llvm::sys::path::append(path, initializer.location);
    if (auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false))
      place->second = std::move(*buffer);
  }
  if (!place->second)
    return {};
  llvm::StringRef all = place->second->getBuffer();
  if (initializer.offset > all.size() || initializer.length > all.size() - initializer.offset)
    return {};
  return all.substr(initializer.offset, initializer.length);
}

TensorView InitializerBytes::view(const Initializer &initializer) {
  TensorView view{initializer.name, of(initializer), initializer.type, initializer.shape};
  if (view.bytes.size() != uint64_t(initializer.count()) * elementBytes(initializer.type))
    view.bytes = {};
  return view;
}

} // namespace ztc::importer
