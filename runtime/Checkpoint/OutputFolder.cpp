#include "runtime/Checkpoint/OutputFolder.h"
#include "runtime/Core/File.h"
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace ztc {

namespace fs = std::filesystem;

StatusOr<OutputFolder> OutputFolder::claim(const std::string &folder) {
  OutputFolder claimed;
  claimed.path_ = folder;
  std::error_code error;
  for (fs::path at = fs::path(folder).lexically_normal(); !at.empty() && !fs::exists(at, error); at = at.parent_path())
    if (!at.filename().empty()) // "out/" ends in an empty name
      claimed.made_.push_back(at.string());
  ZTC_RETURN_IF_ERROR(checkWritable(folder));
  claimed.descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (claimed.descriptor_ < 0)
    return fileError("open", folder, errno);
  if (::flock(claimed.descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return failedPrecondition(fmt::format(
        "another run is writing into '{}': wait for its end, or give this one a folder of its own", folder));
  return claimed;
}

bool OutputFolder::isHeld(const std::string &folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return false;
  const bool isHeld = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return isHeld;
}

OutputFolder::~OutputFolder() {
  for (const std::string &folder : made_)
    if (::rmdir(folder.c_str()) != 0) // it has content
      break;
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

bool OutputFolder::is(const std::string &folder) const {
  std::error_code error;
  return fs::equivalent(path_, folder, error);
}

void OutputFolder::swap(OutputFolder &other) noexcept {
  std::swap(path_, other.path_);
  std::swap(made_, other.made_);
  std::swap(descriptor_, other.descriptor_);
}

} // namespace ztc
