#include "runtime/Core/File.h"
#include "runtime/Core/TemporaryName.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace ztc {

namespace fs = std::filesystem;

/// What to do about it, where that is more than the error's name says.
static const char *adviceOn(std::string_view action, int errorNumber) {
  const bool isWritten = action == "write" || action == "create folder";
  switch (errorNumber) {
  case EACCES:
  case EPERM:
  case EROFS:
    return isWritten ? "; name a place where you may write" : "";
  case ENOTDIR:
    return isWritten ? "; a file stands where a folder should be: name another place" : "";
  case EEXIST:
  case ELOOP:
    return isWritten ? "; a link that leads nowhere may stand there: name another place" : "";
  case ENOENT:
    return action == "write" ? "; make its folder first, or name another place" : "";
  case EISDIR:
    return isWritten ? "; name a file in it" : "";
  default:
    return "";
  }
}

Status fileError(std::string_view action, const std::string &path, int errorNumber) {
  std::string message =
      fmt::format("cannot {} '{}': {}{}", action, path, std::strerror(errorNumber), adviceOn(action, errorNumber));
  switch (errorNumber) {
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
    return resourceExhausted(message);
  case ENOENT:
    return notFound(message);
  default:
    return failedPrecondition(message);
  }
}

static int openRetrying(const std::string &path, int flags) {
  int descriptor = -1;
  do
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

/// Ok for a regular file. A pipe or a device has no size and no positions, and reading one may never end.
static Status checkRegular(int descriptor, const std::string &path, struct stat &info) {
  if (::fstat(descriptor, &info) != 0)
    return fileError("read", path, errno);
  if (S_ISDIR(info.st_mode))
    return fileError("read", path, EISDIR);
  if (!S_ISREG(info.st_mode))
    return failedPrecondition(fmt::format("cannot read '{}': it is a pipe or a device, not a file", path));
  return Status::ok();
}

StatusOr<MappedFile> MappedFile::open(const std::string &path) {
  // Without O_NONBLOCK the opening of a pipe waits for somebody who writes.
  const int descriptor = openRetrying(path, O_RDONLY | O_NONBLOCK);
  if (descriptor < 0)
    return fileError("open", path, errno);
  struct stat info{};
  if (Status regular = checkRegular(descriptor, path, info); !regular.isOk()) {
    ::close(descriptor);
    return regular;
  }
  MappedFile file;
  file.path_ = path;
  file.size_ = static_cast<uint64_t>(info.st_size);
  if (file.size_) {
    void *data = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, descriptor, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      ::close(descriptor);
      file.size_ = 0;
      return fileError("map", path, error);
    }
    file.data_ = static_cast<const std::byte *>(data);
  }
  ::close(descriptor);
  return file;
}

MappedFile::~MappedFile() {
  if (data_)
    ::munmap(const_cast<std::byte *>(data_), size_);
}

void MappedFile::swap(MappedFile &other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
}

StatusOr<File> File::open(const std::string &path, Mode mode) {
  File file;
  file.path_ = path;
  const int flags = mode == Mode::Read        ? O_RDONLY | O_NONBLOCK
                    : mode == Mode::ReadWrite ? O_RDWR
                                              : O_RDWR | O_CREAT | O_TRUNC;
  file.descriptor_ = openRetrying(path, flags);
  if (file.descriptor_ < 0)
    return fileError(mode == Mode::Read ? "open" : "write", path, errno);
  struct stat info{};
  if (mode == Mode::Read)
    ZTC_RETURN_IF_ERROR(checkRegular(file.descriptor_, path, info));
  return file;
}

File::~File() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

void File::swap(File &other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
}

StatusOr<uint64_t> File::size() const {
  struct stat info{};
  if (::fstat(descriptor_, &info) != 0)
    return fileError("read", path_, errno);
  return static_cast<uint64_t>(info.st_size);
}

Status File::readAt(uint64_t offset, void *to, uint64_t bytes) const {
  auto *p = static_cast<char *>(to);
  const uint64_t end = offset + bytes;
  while (bytes) {
    const ssize_t n = ::pread(descriptor_, p, std::min<uint64_t>(bytes, 1u << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return fileError("read", path_, errno);
    if (n == 0)
      return dataLoss(
          fmt::format("'{}' is truncated: it ends at byte {}, but bytes up to {} are needed", path_, offset, end));
    p += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
  return Status::ok();
}

Status File::writeAt(uint64_t offset, const void *from, uint64_t bytes) const {
  const auto *p = static_cast<const char *>(from);
  while (bytes) {
    const ssize_t n = ::pwrite(descriptor_, p, std::min<uint64_t>(bytes, 1u << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return fileError("write", path_, n < 0 ? errno : ENOSPC);
    p += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
  return Status::ok();
}

Status File::reserve(uint64_t bytes) const {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0)
    return fileError("write", path_, errno);
  if (!bytes)
    return Status::ok();
  int error = 0;
  do
    error = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  // Some file systems cannot reserve; there a full disk shows at the write.
  if (error && error != EOPNOTSUPP && error != EINVAL && error != ENOSYS)
    return fileError("write", path_, error);
  return Status::ok();
}

Status File::sync() const {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) // EINVAL: a special file that has nothing to sync
    return fileError("write", path_, errno);
  return Status::ok();
}

StatusOr<std::string> replaceablePath(const std::string &path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    return fileError("write", path, EISDIR);
  if (fs::exists(status) && !fs::is_regular_file(status))
    return invalidArgument(fmt::format("cannot write '{}': it is a device or a pipe, not a file", path));
  // A link keeps pointing at what is replaced.
  const fs::path target = fs::is_symlink(fs::symlink_status(path, error)) ? fs::canonical(path, error) : fs::path(path);
  return error ? path : target.string();
}

Status replaceFile(const std::string &given, const std::function<Status(const File &)> &write) {
  std::error_code error;
  if (fs::is_character_file(given, error)) { // /dev/null, say: renaming over it would take it away from everyone
    ZTC_ASSIGN_OR_RETURN(const File device, File::open(given, File::Mode::ReadWrite));
    return write(device);
  }
  ZTC_ASSIGN_OR_RETURN(const std::string path, replaceablePath(given));
  const std::string temporary = temporaryName(path);
  Status done = [&]() -> Status {
    StatusOr<File> file = File::open(temporary, File::Mode::Create);
    if (!file.isOk())
      return Status(file.status().code(), file.status().message());
    ZTC_RETURN_IF_ERROR(write(*file));
    ZTC_RETURN_IF_ERROR(file->sync());
    return renamePath(temporary, path);
  }();
  if (!done.isOk()) {
    ::unlink(temporary.c_str());
    return done;
  }
  return syncFolder(parentFolder(path));
}

Status replaceFile(const std::string &path, std::string_view content) {
  return replaceFile(path, [&](const File &file) { return file.writeAt(0, content.data(), content.size()); });
}

/// The index of a checkpoint of a million tensors has some hundred MB.
static constexpr uint64_t kLargestWholeFile = uint64_t(1) << 30;

StatusOr<std::string> readWholeFile(const std::string &path) {
  ZTC_ASSIGN_OR_RETURN(File file, File::open(path, File::Mode::Read));
  if (isFolder(path))
    return fileError("read", path, EISDIR);
  ZTC_ASSIGN_OR_RETURN(const uint64_t size, file.size());
  if (size > kLargestWholeFile)
    return failedPrecondition(fmt::format("'{}' has {} bytes: that is not a configuration or index", path, size));
  std::string content(size, '\0');
  ZTC_RETURN_IF_ERROR(file.readAt(0, content.data(), size));
  return content;
}

Status syncFolder(const std::string &folder) {
  const int descriptor = openRetrying(folder, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0)
    return fileError("open", folder, errno);
  const int failed = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (failed && error != EINVAL)
    return fileError("write", folder, error);
  return Status::ok();
}

Status makeFolders(const std::string &folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return fileError("create folder", folder, error.value());
  if (!isFolder(folder))
    return fileError("create folder", folder, ENOTDIR);
  return Status::ok();
}

Status checkWritable(const std::string &folder) {
  ZTC_RETURN_IF_ERROR(makeFolders(folder));
  const std::string probe = fmt::format("{}/.ztc-probe-{}", folder, ::getpid());
  const int descriptor = openRetrying(probe, O_WRONLY | O_CREAT | O_TRUNC);
  if (descriptor < 0)
    return fileError("write into folder", folder, errno);
  ::close(descriptor);
  ::unlink(probe.c_str());
  return Status::ok();
}

Status renamePath(const std::string &from, const std::string &to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return fileError("write", to, errno);
  return Status::ok();
}

Status exchangePaths(const std::string &a, const std::string &b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0)
    return Status::ok();
  if (errno != EINVAL && errno != ENOSYS)
    return fileError("write", b, errno);
  const std::string aside = a + ".old";
  ZTC_RETURN_IF_ERROR(renamePath(b, aside));
  ZTC_RETURN_IF_ERROR(renamePath(a, b));
  return renamePath(aside, a);
}

Status removeAll(const std::string &path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? fileError("remove", path, error.value()) : Status::ok();
}

bool pathExists(const std::string &path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool isFolder(const std::string &path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

StatusOr<std::vector<std::string>> listFolder(const std::string &folder) {
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error)
    return fileError("list", folder, error.value());
  std::vector<std::string> names;
  for (; it != fs::directory_iterator(); it.increment(error)) {
    if (error)
      return fileError("list", folder, error.value());
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

StatusOr<uint64_t> freeBytes(const std::string &folder) {
  struct statvfs info{};
  if (::statvfs(folder.c_str(), &info) != 0)
    return fileError("ask the free space of", folder, errno);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

std::string parentFolder(const std::string &path) {
  std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

} // namespace ztc
