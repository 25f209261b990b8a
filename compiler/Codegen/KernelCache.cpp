#include "compiler/Codegen/KernelCache.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Chrono.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include <dlfcn.h>

using namespace llvm;

namespace ztc::codegen {

/// LLVM's pruning knows its entries by this.
static constexpr StringLiteral kEntryPrefix = "llvmcache-";
static constexpr size_t kChecksumBytes = 32;

static std::string checksumOf(StringRef bytes) {
  SHA256 hash;
  hash.update(bytes);
  return toStringRef(hash.final()).str();
}

/// The file that holds the code at `address`.
static std::string fileWith(const void *address) {
  Dl_info found;
  return dladdr(address, &found) && found.dli_fname ? found.dli_fname : "";
}

std::string identityOf(StringRef path) {
  sys::fs::file_status status;
  if (sys::fs::status(path, status))
    return path.str();
  return (path + "\n" + Twine(status.getSize()) + "\n" +
          Twine(status.getLastModificationTime().time_since_epoch().count()))
      .str();
}

KernelCache::KernelCache(StringRef folder) : folder(folder) {
  if (folder.empty())
    return;
  CachePruningPolicy policy;
  policy.Interval = std::chrono::hours(1);
  policy.MaxSizeBytes = uint64_t(1) << 30;
  policy.MaxSizePercentageOfAvailableSpace = 50;
  (void)pruneCache(folder, policy);
}

Error KernelCache::prepare(StringRef folder) {
  if (std::error_code error = sys::fs::create_directories(folder, /*IgnoreExisting=*/true, sys::fs::owner_all))
    return createStringError("cannot create the folder " + folder + ": " + error.message());
  if (sys::fs::access(folder, sys::fs::AccessMode::Write) || !sys::fs::is_directory(folder))
    return createStringError("cannot write to " + folder);
  return Error::success();
}

std::string KernelCache::keyOf(ArrayRef<StringRef> parts) {
  // Any other build of either library is another generator.
  static const std::string generator = identityOf(fileWith(reinterpret_cast<const void *>(&KernelCache::keyOf))) +
                                       identityOf(fileWith(reinterpret_cast<const void *>(&LLVMInitializeX86Target)));
  SHA256 hash;
  hash.update(generator);
  for (StringRef part : parts) {
    hash.update(std::to_string(part.size()) + ":");
    hash.update(part);
  }
  return toHex(hash.final(), /*LowerCase=*/true);
}

std::string KernelCache::pathOf(const std::string &key) const {
  SmallString<128> path(folder);
  sys::path::append(path, kEntryPrefix + key);
  return path.str().str();
}

std::optional<std::string> KernelCache::find(const std::string &key) const {
  if (!isOpen())
    return std::nullopt;
  auto entry = MemoryBuffer::getFile(pathOf(key), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!entry)
    return std::nullopt;
  const StringRef text = (*entry)->getBuffer();
  const StringRef bytes = text.drop_front(std::min(kChecksumBytes, text.size()));
  if (text.take_front(kChecksumBytes) != checksumOf(bytes))
    return std::nullopt;
  return bytes.str();
}

void KernelCache::store(const std::string &key, StringRef bytes) const {
  if (!isOpen())
    return;
  // Under its name at once, and whole; where the disk is full, not at all.
  Expected<sys::fs::TempFile> entry = sys::fs::TempFile::create(pathOf(key) + "-%%%%%%");
  if (!entry)
    return consumeError(entry.takeError());
  raw_fd_ostream stream(entry->FD, /*shouldClose=*/false);
  stream << checksumOf(bytes) << bytes;
  stream.flush();
  const bool isWhole = !stream.has_error();
  stream.clear_error();
  consumeError(isWhole ? entry->keep(pathOf(key)) : entry->discard());
}

} // namespace ztc::codegen
