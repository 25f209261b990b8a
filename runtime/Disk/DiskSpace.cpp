#include "runtime/Disk/DiskSpace.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Memory/Planner.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace ztc {
namespace {

constexpr const char *kPrefix = "ztc-offload-";
constexpr unsigned kThreads = 4, kDepth = 16;

/// How long a run waits at its start for room that a killed one is about to give back.
constexpr auto kWaitForRoom = std::chrono::seconds(5);

/// Whether a file still has its name.
bool isLinked(int file) {
  struct stat info{};
  return fstat(file, &info) == 0 && info.st_nlink > 0;
}

/// Removes what killed runs have left: whoever uses such a file holds its lock. The number of those whose lock is held.
size_t removeAbandoned(const std::string &folder) {
  size_t held = 0;
  const auto names = listFolder(folder);
  if (!names.isOk())
    return held;
  for (const std::string &name : *names) {
    if (!name.starts_with(kPrefix))
      continue;
    const std::string path = folder + "/" + name;
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
      continue;
    // One that its run has removed by now is not what has its name: another rank may have made that.
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
      if (isLinked(file))
        unlink(path.c_str());
    } else {
      ++held;
    }
    close(file);
  }
  return held;
}

} // namespace

StatusOr<std::unique_ptr<DiskSpace>> DiskSpace::create(const DiskSpaceOptions &options, uint64_t bytes) {
  std::unique_ptr<DiskSpace> space(new DiskSpace);
  space->bytes_ = roundUp(bytes, kDiskAlignment);
  if (options.folder.empty())
    return invalidArgument("the plan keeps slots on a disk: name a folder there with --disk=DIR");
  if (!isFolder(options.folder))
    return notFound(fmt::format("--disk: there is no folder {}", options.folder));
  space->folder_ = options.folder;
  space->othersHold_ = removeAbandoned(options.folder) > 0;
  space->lookedAt_ = steadySeconds();
  ZTC_RETURN_IF_ERROR(space->open(options));
  ZTC_RETURN_IF_ERROR(space->reserve());
  void *memory =
      mmap(nullptr, space->windows_.size() * kWindowBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return resourceExhausted(fmt::format("windows on {}: {}", space->path_, std::strerror(errno)));
  space->memory_ = static_cast<std::byte *>(memory);
  for (size_t i = 0; i < space->windows_.size(); ++i)
    space->windows_[i].memory = space->memory_ + i * kWindowBytes;
  if (options.engine != "threads") {
    auto engine = createUringEngine(space->file_, space->path_, kDepth);
    if (engine.isOk())
      space->engine_ = std::move(*engine);
    else if (options.engine == "io_uring")
      return engine.status();
  }
  if (!space->engine_)
    space->engine_ = createThreadEngine(space->file_, space->path_, kThreads);
  return space;
}

DiskSpace::~DiskSpace() {
  engine_.reset(); // it uses the file
  if (file_ >= 0) {
    unlink(path_.c_str());
    close(file_);
  }
  if (othersHold_)
    removeAbandoned(folder_);
  if (memory_)
    munmap(memory_, windows_.size() * kWindowBytes);
}

Status DiskSpace::open(const DiskSpaceOptions &options) {
  path_ =
      fmt::format("{}/{}{}-rank{}", options.folder, kPrefix, options.run.empty() ? "trial" : options.run, options.rank);
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  const std::string stem = path_;
  // Another run of the same id is at work there, or it is a trial, which has none.
  for (int attempt = 1; attempt < 1000; ++attempt) {
    file_ = ::open(path_.c_str(), kFlags | O_DIRECT, 0600);
    isDirect_ = file_ >= 0;
    if (file_ < 0 && errno == EINVAL) { // this file system has no direct transfers
      unlink(path_.c_str());            // some make the file all the same
      file_ = ::open(path_.c_str(), kFlags, 0600);
    }
    if (file_ < 0 && errno == EEXIST) {
      path_ = fmt::format("{}-{}", stem, attempt + 1);
      continue;
    }
    if (file_ < 0)
      return fileError("make", path_, errno).withContext("--disk");
    // Another rank that begins may take a file without a lock for one that a killed run has left: then it is gone, and
    // is made again.
    while (flock(file_, LOCK_EX) != 0)
      if (errno != EINTR)
        return fileError("lock", path_, errno).withContext("--disk");
    if (isLinked(file_))
      return Status::ok();
    close(file_);
    file_ = -1;
  }
  return fileError("make", path_, EEXIST).withContext("--disk");
}

void DiskSpace::lookAgain() {
  othersHold_ = removeAbandoned(folder_) > 1; // one of them is this one's
  lookedAt_ = steadySeconds();
}

Status DiskSpace::reserve() {
  StatusOr<uint64_t> before = freeBytes(folder_);
  // A run that was killed a moment ago keeps its file until the kernel has ended the transfers that were in flight.
  for (const double begin = steadySeconds();
       othersHold_ && before.isOk() && *before < bytes_ && steadySeconds() - begin < kWaitForRoom.count();) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lookAgain();
    before = freeBytes(folder_);
  }
  // posix_fallocate would fill the disk before it fails.
  if (before.isOk() && *before < bytes_)
    return resourceExhausted(fmt::format("--disk={}: the plan keeps {} there ({} bytes), {} bytes more than are free: "
                                         "name another folder, or compile with a smaller --disk-mem",
                                         folder_, formatSize(bytes_), bytes_, bytes_ - *before));
  if (const int error = bytes_ ? posix_fallocate(file_, 0, off_t(bytes_)) : 0)
    return fileError(fmt::format("reserve {} bytes of", bytes_), path_, error).withContext("--disk");
  return Status::ok();
}

std::string DiskSpace::description() const {
  return fmt::format("{}, {}", isDirect_ ? "direct" : "through the page cache", engine_->name());
}

Status DiskSpace::transfer(std::span<const DiskTransfer> transfers) {
  // Files whose locks were held at the start are those of runs at work, or of one that was killed just before.
  if (othersHold_ && steadySeconds() - lookedAt_ >= 1)
    lookAgain();
  pieces_.clear();
  for (DiskTransfer whole : transfers) {
    if (whole.offset > bytes_ || whole.bytes > bytes_ - whole.offset)
      return internalError(fmt::format("{} bytes at {} of a file of {}", whole.bytes, whole.offset, bytes_));
    uint64_t straight = whole.bytes;
    if (isDirect_) {
      const bool begins =
          whole.offset % kDiskAlignment == 0 && reinterpret_cast<uintptr_t>(whole.memory) % kDirectMemoryAlignment == 0;
      straight = begins ? whole.bytes / kDiskAlignment * kDiskAlignment : 0;
    }
    for (uint64_t done = 0; done < straight; done += kLargestTransfer)
      pieces_.push_back(
          {whole.isWrite, whole.offset + done, whole.memory + done, std::min(kLargestTransfer, straight - done)});
    if (straight == whole.bytes)
      continue;
    ZTC_RETURN_IF_ERROR(whole.isWrite
                            ? writeAnywhere(whole.offset + straight, whole.memory + straight, whole.bytes - straight)
                            : readAnywhere(whole.offset + straight, whole.memory + straight, whole.bytes - straight));
  }
  ZTC_RETURN_IF_ERROR(emptyWindows()); // what they hold of the neighbours is about to change
  return pieces_.empty() ? Status::ok() : engine_->run(pieces_);
}

Status DiskSpace::block(bool isWrite, const Window &window) {
  const uint64_t bytes = std::min(kWindowBytes, bytes_ - window.begin);
  for (uint64_t done = 0; done < bytes;) {
    const auto at = off_t(window.begin + done);
    const ssize_t moved = isWrite ? pwrite(file_, window.memory + done, bytes - done, at)
                                  : pread(file_, window.memory + done, bytes - done, at);
    if (moved < 0 && errno == EINTR)
      continue;
    if (moved <= 0)
      return fileError(isWrite ? "write" : "read", path_, moved < 0 ? errno : EIO);
    done += uint64_t(moved);
  }
  return Status::ok();
}

StatusOr<DiskSpace::Window *> DiskSpace::windowAt(uint64_t at) {
  const uint64_t begin = at / kWindowBytes * kWindowBytes;
  Window *oldest = &windows_[0];
  for (Window &window : windows_) {
    if (window.begin == begin) {
      window.lastUse = ++uses_;
      return &window;
    }
    if (window.lastUse < oldest->lastUse)
      oldest = &window;
  }
  if (oldest->isDirty)
    ZTC_RETURN_IF_ERROR(block(true, *oldest));
  *oldest = {.begin = begin, .lastUse = ++uses_, .isDirty = false, .memory = oldest->memory};
  if (Status status = block(false, *oldest); !status.isOk()) {
    oldest->begin = UINT64_MAX;
    return status;
  }
  return oldest;
}

Status DiskSpace::emptyWindows() {
  std::lock_guard lock(mutex_);
  for (Window &window : windows_) {
    if (window.isDirty)
      ZTC_RETURN_IF_ERROR(block(true, window));
    window.isDirty = false;
    window.begin = UINT64_MAX;
    window.lastUse = 0;
  }
  return Status::ok();
}

Status DiskSpace::through(bool isWrite, uint64_t offset, std::byte *memory, uint64_t bytes) {
  if (offset > bytes_ || bytes > bytes_ - offset)
    return internalError(fmt::format("{} bytes at {} of a file of {}", bytes, offset, bytes_));
  std::lock_guard lock(mutex_);
  for (uint64_t done = 0; done < bytes;) {
    ZTC_ASSIGN_OR_RETURN(Window * window, windowAt(offset + done));
    const uint64_t inside = offset + done - window->begin;
    const uint64_t here = std::min(bytes - done, kWindowBytes - inside);
    if (isWrite)
      std::memcpy(window->memory + inside, memory + done, here);
    else
      std::memcpy(memory + done, window->memory + inside, here);
    window->isDirty |= isWrite;
    done += here;
  }
  return Status::ok();
}

Status DiskSpace::readAnywhere(uint64_t offset, void *to, uint64_t bytes) {
  return through(false, offset, static_cast<std::byte *>(to), bytes);
}

Status DiskSpace::writeAnywhere(uint64_t offset, const void *from, uint64_t bytes) {
  return through(true, offset, static_cast<std::byte *>(const_cast<void *>(from)), bytes);
}

StatusOr<DiskRates> measureDisk(const DiskSpaceOptions &options, uint64_t bytes) {
  ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<DiskSpace> space, DiskSpace::create(options, bytes));
  constexpr uint64_t kWindow = uint64_t(16) << 20; ///< as the update moves
  void *mapped = mmap(nullptr, kWindow, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return resourceExhausted(fmt::format("a window of {} bytes: {}", kWindow, std::strerror(errno)));
  std::memset(mapped, 0x5a, kWindow);
  Status status;
  DiskRates rates;
  rates.description = space->description();
  // Once to write what was only reserved, then for the rates.
  for (int round = 0; round < 2 && status.isOk(); ++round)
    for (bool isWrite : {true, false}) {
      const double before = steadySeconds();
      for (uint64_t at = 0; at + kWindow <= space->bytes() && status.isOk(); at += kWindow) {
        const DiskTransfer window{isWrite, at, static_cast<std::byte *>(mapped), kWindow};
        status = space->transfer({&window, 1});
      }
      const double seconds = steadySeconds() - before;
      const uint64_t moved = space->bytes() / kWindow * kWindow;
      if (seconds > 0)
        (isWrite ? rates.writeBytesPerSecond : rates.readBytesPerSecond) = double(moved) / seconds;
    }
  munmap(mapped, kWindow);
  ZTC_RETURN_IF_ERROR(status);
  return rates;
}

} // namespace ztc
