#include "runtime/Device/LowerMemory.h"
#include <cstring>
#include <fmt/format.h>

namespace ztc {

StatusOr<std::unique_ptr<LowerMemory>> LowerMemory::create(const MemoryPlan &memory, DeviceMemory &device,
                                                           std::unique_ptr<DiskSpace> disk) {
  auto made = std::make_unique<LowerMemory>();
  if (memory.host.bytes) {
    auto host = device.allocateHostSpace(memory.host.bytes);
    if (!host.isOk())
      return host.status().withContext(fmt::format("the {} bytes of space `host`", memory.host.bytes));
    made->host_ = std::move(*host);
  }
  if (memory.disk.bytes && (!disk || disk->bytes() < memory.disk.bytes))
    return internalError(fmt::format("a plan with {} bytes on the disk without a file for them", memory.disk.bytes));
  made->disk_ = std::move(disk);
  return made;
}

Status LowerMemory::read(plan::Space space, uint64_t offset, void *to, uint64_t bytes) {
  if (space == plan::DISK)
    return disk_ ? disk_->readAnywhere(offset, to, bytes) : internalError("there is no space `disk`");
  if (offset > hostBytes() || bytes > hostBytes() - offset)
    return internalError(fmt::format("{} bytes at {} of {} of space `host`", bytes, offset, hostBytes()));
  std::memcpy(to, host() + offset, bytes);
  return Status::ok();
}

Status LowerMemory::write(plan::Space space, uint64_t offset, const void *from, uint64_t bytes) {
  if (space == plan::DISK)
    return disk_ ? disk_->writeAnywhere(offset, from, bytes) : internalError("there is no space `disk`");
  if (offset > hostBytes() || bytes > hostBytes() - offset)
    return internalError(fmt::format("{} bytes at {} of {} of space `host`", bytes, offset, hostBytes()));
  std::memcpy(host() + offset, from, bytes);
  return Status::ok();
}

MovedBytes LowerMemory::moved() const {
  const auto value = [](const std::atomic<uint64_t> &counter) { return counter.load(std::memory_order_relaxed); };
  return {value(counters_.hostIn),  value(counters_.hostOut),     value(counters_.diskIn),
          value(counters_.diskOut), value(counters_.nanoseconds), value(counters_.waited)};
}

} // namespace ztc
