#include "frontends/onnx/MatchCache.h"
#include "runtime/Core/Sha256.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

namespace ztc::importer {
namespace {

constexpr unsigned kVersion = 3; ///< of what is looked for: results of an older search are not taken

/// "" where there is no home either.
std::string pathOf(const std::string &key) {
  llvm::SmallString<256> path;
  if (auto cache = llvm::sys::Process::GetEnv("ZTC_CACHE"); cache && !cache->empty())
    path = *cache;
  else if (llvm::sys::path::home_directory(path))
    llvm::sys::path::append(path, ".cache", "ztc");
  else
    return "";
  llvm::sys::path::append(path, "weights-" + key + ".json");
  return std::string(path);
}

/// Removes what was kept long ago: comparing again costs a read of the files, keeping costs space for ever.
void removeOld(llvm::StringRef folder) {
  constexpr std::chrono::hours kKept(90 * 24);
  std::error_code error;
  for (llvm::sys::fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const llvm::StringRef name = llvm::sys::path::filename(entry->path());
    llvm::sys::fs::file_status status;
    if (name.starts_with("weights-") && name.ends_with(".json") && !llvm::sys::fs::status(entry->path(), status) &&
        std::chrono::system_clock::now() - status.getLastModificationTime() > kKept)
      (void)llvm::sys::fs::remove(entry->path()); // another process may have been first
  }
}

} // namespace

std::string matchKey(llvm::ArrayRef<std::string> files, llvm::StringRef facts) {
  Sha256 hash;
  auto add = [&](llvm::StringRef text) {
    uint64_t size = text.size();
    hash.update(&size, sizeof size);
    hash.update(text.data(), text.size());
  };
  add(std::to_string(kVersion));
  for (const std::string &file : files) {
    llvm::SmallString<256> path(file);
    (void)llvm::sys::fs::make_absolute(path);
    llvm::sys::fs::file_status status;
    add(path);
    if (!llvm::sys::fs::status(path, status)) {
      add(std::to_string(status.getSize()));
      add(std::to_string(status.getLastModificationTime().time_since_epoch().count()));
    }
  }
  add(facts);
  return Sha256::hex(hash.finish()).substr(0, 32);
}

nlohmann::json readMatches(const std::string &key) {
  auto buffer = llvm::MemoryBuffer::getFile(pathOf(key));
  if (!buffer)
    return nullptr;
  auto json = nlohmann::json::parse((*buffer)->getBuffer().begin(), (*buffer)->getBuffer().end(), nullptr,
                                    /*allow_exceptions=*/false);
  return json.is_discarded() ? nlohmann::json(nullptr) : json;
}

void keepMatches(const std::string &key, const nlohmann::json &matches) {
  std::string path = pathOf(key);
  if (path.empty() || llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path)))
    return;
  removeOld(llvm::sys::path::parent_path(path));
  // Another compilation may read it meanwhile.
  llvm::SmallString<256> temporary;
  int file;
  if (llvm::sys::fs::createUniqueFile(path + "-%%%%%%", file, temporary))
    return;
  llvm::raw_fd_ostream out(file, /*shouldClose=*/true);
  out << matches.dump();
  out.close();
  if (out.has_error() || llvm::sys::fs::rename(temporary, path)) {
    out.clear_error();
    (void)llvm::sys::fs::remove(temporary);
  }
}

} // namespace ztc::importer
