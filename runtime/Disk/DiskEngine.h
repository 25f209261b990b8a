// Transfers between memory and a file, several in flight.
#pragma once
#include "runtime/Core/Status.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ztc {

/// One piece, read into memory or written from it. Offset, memory and length are what the open file asks for.
struct DiskTransfer {
  bool isWrite = false;
  uint64_t offset = 0; ///< in the file
  std::byte *memory = nullptr;
  uint64_t bytes = 0;
};

/// Carries out transfers of one file, which outlives it. Nothing is allocated once it is made.
class DiskEngine {
public:
  virtual ~DiskEngine() = default;
  /// "io_uring, 16 in flight", "4 threads".
  virtual std::string name() const = 0;
  /// Returns when all are done, in whatever order. Each is at most kLargestTransfer long. One thread at a time.
  virtual Status run(std::span<const DiskTransfer> transfers) = 0;
};

/// Longer transfers are cut: so much reaches a disk's full rate, and several of them are in flight.
inline constexpr uint64_t kLargestTransfer = uint64_t(1) << 20;

/// A pool of threads with pread and pwrite. `path` is for messages.
std::unique_ptr<DiskEngine> createThreadEngine(int file, std::string path, unsigned threads);
/// The kernel's own queue, by system calls. Fails (FailedPrecondition) where kernel or container do not allow it: many
/// containers do not.
StatusOr<std::unique_ptr<DiskEngine>> createUringEngine(int file, std::string path, unsigned depth);

} // namespace ztc
