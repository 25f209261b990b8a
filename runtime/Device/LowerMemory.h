// The memory spaces below the device's: page-locked memory of the host, and a file. Only moves reach them while
// programs run; checkpoints, exports and loading reach them in between.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/Device.h"
#include "runtime/Disk/DiskSpace.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Planner.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace ztc {

/// What moved so far, of a run.
struct MovedBytes {
  uint64_t hostIn = 0, hostOut = 0, diskIn = 0, diskOut = 0; ///< out: away from the device
  uint64_t nanoseconds = 0;                                  ///< that moves took, on their stream
  uint64_t waitedNanoseconds = 0; ///< that the computation stood still for them; 0 on a GPU, where it is not known
};

/// One rank's. Moves come from one thread; reads and writes of slots from any, but not of what moves meanwhile.
class LowerMemory {
public:
  /// Takes and reserves what the plan needs of both. `disk` may be null where the plan has nothing there.
  static StatusOr<std::unique_ptr<LowerMemory>> create(const MemoryPlan &memory, DeviceMemory &device,
                                                       std::unique_ptr<DiskSpace> disk);

  /// First byte of space `host`; null where the plan has none.
  std::byte *host() const { return host_ ? host_->base() : nullptr; }
  uint64_t hostBytes() const { return host_ ? host_->bytes() : 0; }
  DiskSpace *disk() const { return disk_.get(); }
  uint64_t diskBytes() const { return disk_ ? disk_->bytes() : 0; }

  /// Copies to or from ordinary memory; `offset` in the space.
  Status read(plan::Space space, uint64_t offset, void *to, uint64_t bytes);
  Status write(plan::Space space, uint64_t offset, const void *from, uint64_t bytes);

  /// Moves count here what they did.
  struct Counters {
    std::atomic<uint64_t> hostIn{0}, hostOut{0}, diskIn{0}, diskOut{0}, nanoseconds{0}, waited{0};
  };
  Counters &counters() { return counters_; }
  MovedBytes moved() const;

private:
  std::unique_ptr<Arena> host_;
  std::unique_ptr<DiskSpace> disk_;
  Counters counters_;
};

} // namespace ztc
