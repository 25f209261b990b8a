#include "runtime/Device/cuda/CudaArena.h"
#include <algorithm>
#include <utility>

namespace ztc {
namespace {

class LegacyArena : public Arena {
public:
  LegacyArena(const CudaDriver &driver, cuda::Address address, uint64_t bytes) : driver_(driver), address_(address) {
    base_ = reinterpret_cast<std::byte *>(address);
    bytes_ = bytes;
  }
  ~LegacyArena() override { driver_.cuMemFree_v2(address_); } // waits for its users by itself

private:
  const CudaDriver &driver_;
  const cuda::Address address_;
};

bool has(const CudaDriver &driver, const Gpu &gpu, int attribute) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, attribute, gpu.index) == cuda::kSuccess && value != 0;
}

/// Memory that other processes' GPUs may be given, and the network's adapters where they can.
cuda::MemoryProperties propertiesOn(const CudaDriver &driver, const Gpu &gpu) {
  cuda::MemoryProperties properties;
  properties.location.id = gpu.index;
  properties.handleTypes = has(driver, gpu, cuda::kHasFileHandles) ? cuda::kFileHandle : 0;
  properties.directRdma = has(driver, gpu, cuda::kHasDirectRdma);
  return properties;
}

/// Addresses, and memory behind all of them.
class VirtualArena : public Arena {
public:
  VirtualArena(const CudaDriver &driver, uint64_t reserved, std::function<void()> drain)
      : driver_(driver), reserved_(reserved), drain_(std::move(drain)) {}
  ~VirtualArena() override {
    if (isMapped_) {
      drain_();
      driver_.cuMemUnmap(address_, reserved_);
    }
    if (hasMemory_)
      driver_.cuMemRelease(memory_);
    if (address_)
      driver_.cuMemAddressFree(address_, reserved_);
  }

  Status create(const cuda::MemoryProperties &properties, uint64_t bytes) {
    ZTC_RETURN_IF_ERROR(
        driver_.check(driver_.cuMemAddressReserve(&address_, reserved_, 0, 0, 0), "cuMemAddressReserve"));
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemCreate(&memory_, reserved_, &properties, 0), "cuMemCreate"));
    hasMemory_ = true;
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemMap(address_, reserved_, 0, memory_, 0), "cuMemMap"));
    isMapped_ = true;
    const cuda::MemoryAccess access{properties.location};
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemSetAccess(address_, reserved_, &access, 1), "cuMemSetAccess"));
    base_ = reinterpret_cast<std::byte *>(address_);
    bytes_ = bytes;
    return Status::ok();
  }

private:
  const CudaDriver &driver_;
  const uint64_t reserved_;
  const std::function<void()> drain_;
  cuda::Address address_ = 0;
  cuda::MemoryHandle memory_ = 0;
  bool hasMemory_ = false, isMapped_ = false;
};

} // namespace

uint64_t cudaArenaBytes(const CudaDriver &driver, const Gpu &gpu, uint64_t bytes) {
  bytes = std::max<uint64_t>(bytes, 1);
  size_t page = 0;
  const cuda::MemoryProperties properties = propertiesOn(driver, gpu);
  if (!has(driver, gpu, cuda::kHasVirtualMemory) ||
      driver.cuMemGetAllocationGranularity(&page, &properties, cuda::kMinimumGranularity) != cuda::kSuccess || !page)
    return bytes;
  return (bytes + page - 1) / page * page;
}

StatusOr<std::unique_ptr<Arena>> allocateCudaArena(const CudaDriver &driver, const Gpu &gpu, uint64_t bytes,
                                                   std::function<void()> drain) {
  const uint64_t taken = cudaArenaBytes(driver, gpu, bytes);
  if (has(driver, gpu, cuda::kHasVirtualMemory)) {
    auto arena = std::make_unique<VirtualArena>(driver, taken, std::move(drain));
    ZTC_RETURN_IF_ERROR(arena->create(propertiesOn(driver, gpu), bytes));
    return std::unique_ptr<Arena>(std::move(arena));
  }
  cuda::Address address = 0;
  ZTC_RETURN_IF_ERROR(driver.check(driver.cuMemAlloc_v2(&address, taken), "cuMemAlloc"));
  return std::unique_ptr<Arena>(std::make_unique<LegacyArena>(driver, address, bytes));
}

} // namespace ztc
