// The memory space `disk`: one file per rank that a run has for itself and that is gone at its end.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Disk/DiskEngine.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace ztc {

struct DiskSpaceOptions {
  std::string folder; ///< where the file is made
  std::string run;    ///< id of the run, for the file's name
  uint32_t rank = 0;
  std::string engine; ///< "io_uring" or "threads"; empty: the first where it is allowed, else the second
};

/// A file of fixed size, all of it reserved, and zero at first. It is not a checkpoint: it means nothing without the
/// memory of the process that made it. Transfers come from one thread; readAnywhere() and writeAnywhere() from any, but
/// not for what a transfer touches meanwhile.
class DiskSpace {
public:
  /// Makes and reserves the file. ResourceExhausted, with the bytes that are missing, where it does not fit. Files that
  /// killed runs left behind are removed first; they are recognised by their free locks. The kernel releases the lock
  /// of a killed run only after its outstanding transfers complete: such a file is removed later, by a transfer at
  /// least a second after the start or when this space is destroyed. If its bytes are needed, creation waits for it up
  /// to 5 s.
  static StatusOr<std::unique_ptr<DiskSpace>> create(const DiskSpaceOptions &options, uint64_t bytes);
  ~DiskSpace();
  DiskSpace(const DiskSpace &) = delete;
  DiskSpace &operator=(const DiskSpace &) = delete;

  uint64_t bytes() const { return bytes_; }
  const std::string &path() const { return path_; }
  /// "direct, io_uring, 16 in flight", for the run's header.
  std::string description() const;

  /// Reads or writes all of it, several pieces in flight. Where the file is open for direct transfers, what begins at a
  /// multiple of kDiskAlignment, in memory of kDirectMemoryAlignment, goes by them, the rest through a buffer.
  Status transfer(std::span<const DiskTransfer> transfers);
  /// Any range, through windows of memory that are written where a transfer follows, or others need their place.
  Status readAnywhere(uint64_t offset, void *to, uint64_t bytes);
  Status writeAnywhere(uint64_t offset, const void *from, uint64_t bytes);

private:
  DiskSpace() = default;
  Status open(const DiskSpaceOptions &options);
  Status reserve();
  /// Removes the files whose locks have become free since the last look.
  void lookAgain();
  /// A part of the file in memory, for what is read and written in small pieces.
  struct Window {
    uint64_t begin = UINT64_MAX; ///< in the file; UINT64_MAX: it holds nothing
    uint64_t lastUse = 0;
    bool isDirty = false;
    std::byte *memory = nullptr;
  };
  static constexpr uint64_t kWindowBytes = uint64_t(256) << 10;
  Status block(bool isWrite, const Window &window);
  /// The window in which byte `at` lies; the one that was used longest ago makes room.
  StatusOr<Window *> windowAt(uint64_t at);
  /// Writes what is dirty, and forgets what windows hold.
  Status emptyWindows();
  /// Copies between memory and windows.
  Status through(bool isWrite, uint64_t offset, std::byte *memory, uint64_t bytes);

  std::string folder_, path_;
  bool othersHold_ = false; ///< the folder has files whose locks others hold
  double lookedAt_ = 0;     ///< when that was found, in seconds of the steady clock
  uint64_t bytes_ = 0;
  int file_ = -1;
  bool isDirect_ = false;
  std::unique_ptr<DiskEngine> engine_;
  std::vector<DiskTransfer> pieces_; ///< of one transfer, kept for their room
  std::mutex mutex_;                 ///< of the windows
  std::array<Window, 16> windows_;
  uint64_t uses_ = 0;
  std::byte *memory_ = nullptr; ///< of all windows
};

/// The rates of a folder's disk, each the best of a few pieces of this size that were carried out as a run does.
struct DiskRates {
  double readBytesPerSecond = 0, writeBytesPerSecond = 0;
  std::string description;
};
StatusOr<DiskRates> measureDisk(const DiskSpaceOptions &options, uint64_t bytes);

} // namespace ztc
