// The part of space `host` that passes what goes between a GPU and the disk.
#pragma once
#include "runtime/Memory/Planner.h"

namespace ztc {

/// Of page-locked memory, at most: several transfers of a disk at a time.
inline constexpr uint64_t kDiskStagingBytes = uint64_t(16) << 20;

/// It is the end of that space, class io, in a plan for GPUs that keeps slots on a disk; on the host nothing passes it.
inline SlotPlacement diskStaging(const MemoryPlan &memory) {
  const uint64_t bytes = memory.disk.bytes < kDiskStagingBytes ? memory.disk.bytes : kDiskStagingBytes;
  return {memory.host.bytes - bytes, bytes};
}

} // namespace ztc
