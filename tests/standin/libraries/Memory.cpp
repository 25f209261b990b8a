// Memory of the stand-in driver: allocations of the device and page-locked ones of the host, and copies, each of which
// holds its addresses against them when it is asked for and again when its turn comes.
#include "tests/standin/libraries/Driver.h"
#include "tests/standin/libraries/StandIn.h"
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <vector>

using namespace ztc;
using cuda::Address;
using cuda::Result;
using namespace ztc::standin;

namespace {

bool inside(const std::map<uint64_t, uint64_t> &ranges, uint64_t address, uint64_t bytes) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin())
    return false;
  --after;
  return address - after->first <= after->second && bytes <= after->second - (address - after->first);
}

Result copy(Address to, Address from, size_t bytes, CUstream_st *stream, bool toDevice, bool fromDevice) {
  const auto check = [=] {
    return (!toDevice || isDeviceMemory(reinterpret_cast<void *>(to), bytes)) &&
           (!fromDevice || isDeviceMemory(reinterpret_cast<void *>(from), bytes));
  };
  if (!check())
    return cuda::kInvalidValue;
  return later(stream, [=] {
    if (!check())
      return fail(cuda::kIllegalAddress, "a copy of memory that has been freed meanwhile");
    std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
  });
}

} // namespace

namespace ztc::standin {

bool isDeviceMemory(const void *address, uint64_t bytes) {
  std::lock_guard lock(driver().mutex);
  return inside(driver().device, reinterpret_cast<uint64_t>(address), bytes);
}

bool isReachable(const void *address, uint64_t bytes) {
  std::lock_guard lock(driver().mutex);
  const auto at = reinterpret_cast<uint64_t>(address);
  return inside(driver().device, at, bytes) || inside(driver().pinned, at, bytes);
}

uint64_t usedBytes() {
  std::lock_guard lock(driver().mutex);
  return driver().allocated + (driver().hasContext ? uint64_t(64) << 20 : 0);
}

bool isVirtualMemory(const void *address, uint64_t bytes) {
  std::lock_guard lock(driver().mutex);
  const auto at = reinterpret_cast<uint64_t>(address);
  auto after = driver().reserved.upper_bound(at);
  if (after == driver().reserved.begin())
    return false;
  --after;
  return after->second.isMapped && at + bytes <= after->first + after->second.bytes;
}

bool takeMemory(uint64_t bytes) {
  size_t freeBytes = 0, totalBytes = 0;
  if (cuda::cuMemGetInfo_v2(&freeBytes, &totalBytes) != cuda::kSuccess || bytes > freeBytes)
    return false;
  std::lock_guard lock(driver().mutex);
  driver().allocated += bytes;
  return true;
}

bool takeLibraryMemory(std::once_flag &once) {
  static thread_local bool isThere;
  isThere = true;
  std::call_once(once, [] { isThere = takeMemory(number("ZTC_STAND_IN_LIBRARIES", 0)); });
  return isThere;
}

} // namespace ztc::standin

namespace ztc::cuda {
extern "C" {

Result cuMemGetInfo_v2(size_t *freeBytes, size_t *totalBytes) {
  if (Result result = ready(); result != kSuccess)
    return result;
  cuDeviceTotalMem_v2(totalBytes, 0);
  std::lock_guard lock(driver().mutex);
  *freeBytes = *totalBytes - driver().allocated;
  return kSuccess;
}
Result cuMemAlloc_v2(Address *address, size_t bytes) {
  if (Result result = mayChange("cuMemAlloc"); result != kSuccess)
    return result;
  if (Result result = ready(); result != kSuccess)
    return result;
  size_t freeBytes = 0, totalBytes = 0;
  if (Result result = cuMemGetInfo_v2(&freeBytes, &totalBytes); result != kSuccess)
    return result;
  if (bytes == 0)
    return kInvalidValue;
  if (bytes > freeBytes)
    return kOutOfMemory;
  void *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!memory)
    return kOutOfMemory;
  std::memset(memory, 0xa5, bytes); // not zero: nobody may rely on it
  std::lock_guard lock(driver().mutex);
  *address = reinterpret_cast<Address>(memory);
  driver().device[*address] = bytes;
  driver().allocated += bytes;
  return kSuccess;
}
Result cuMemFree_v2(Address address) {
  if (Result result = mayChange("cuMemFree"); result != kSuccess)
    return result;
  {
    std::lock_guard lock(driver().mutex);
    if (!driver().device.count(address))
      return kInvalidValue;
  }
  drainAll();
  std::lock_guard lock(driver().mutex);
  driver().allocated -= driver().device[address];
  driver().device.erase(address);
  std::free(reinterpret_cast<void *>(address));
  return kSuccess;
}

/// Pages of virtual memory: much smaller than the 2 MiB of GPUs, so that what reaches beyond an arena is found.
static constexpr size_t kPageBytes = 512;

Result cuMemGetAllocationGranularity(size_t *bytes, const MemoryProperties *properties, int) {
  *bytes = kPageBytes;
  return properties->type == 1 && properties->location.type == 1 ? kSuccess : kInvalidValue;
}
Result cuMemAddressReserve(Address *address, size_t bytes, size_t, Address, unsigned long long flags) {
  if (Result result = ready(); result != kSuccess)
    return result;
  if (bytes == 0 || bytes % kPageBytes || flags)
    return kInvalidValue;
  void *memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return kOutOfMemory;
  *address = reinterpret_cast<Address>(memory);
  std::lock_guard lock(driver().mutex);
  driver().reserved[*address] = {bytes, false};
  return kSuccess;
}
Result cuMemAddressFree(Address address, size_t bytes) {
  std::lock_guard lock(driver().mutex);
  const auto found = driver().reserved.find(address);
  if (found == driver().reserved.end() || found->second.bytes != bytes || found->second.isMapped)
    return kInvalidValue;
  munmap(reinterpret_cast<void *>(address), bytes);
  driver().reserved.erase(found);
  return kSuccess;
}
Result cuMemCreate(MemoryHandle *memory, size_t bytes, const MemoryProperties *properties, unsigned long long flags) {
  if (Result result = mayChange("cuMemCreate"); result != kSuccess)
    return result;
  if (Result result = ready(); result != kSuccess)
    return result;
  if (bytes == 0 || bytes % kPageBytes || flags || properties->type != 1 || properties->location.type != 1)
    return kInvalidValue;
  if (!takeMemory(bytes))
    return kOutOfMemory;
  std::lock_guard lock(driver().mutex);
  *memory = driver().nextMemory++;
  driver().memories[*memory] = bytes;
  return kSuccess;
}
Result cuMemRelease(MemoryHandle memory) {
  std::lock_guard lock(driver().mutex);
  const auto found = driver().memories.find(memory);
  if (found == driver().memories.end())
    return kInvalidValue;
  driver().allocated -= found->second;
  driver().memories.erase(found);
  return kSuccess;
}
Result cuMemMap(Address address, size_t bytes, size_t offset, MemoryHandle memory, unsigned long long flags) {
  std::lock_guard lock(driver().mutex);
  const auto found = driver().reserved.find(address);
  if (found == driver().reserved.end() || found->second.isMapped || found->second.bytes != bytes || offset || flags ||
      !driver().memories.count(memory) || driver().memories[memory] != bytes)
    return kInvalidValue;
  found->second.isMapped = true;
  return kSuccess;
}
/// Without it what is mapped cannot be touched.
Result cuMemSetAccess(Address address, size_t bytes, const MemoryAccess *access, size_t count) {
  {
    std::lock_guard lock(driver().mutex);
    const auto found = driver().reserved.find(address);
    if (found == driver().reserved.end() || !found->second.isMapped || found->second.bytes != bytes || count != 1 ||
        access->flags != 3)
      return kInvalidValue;
    driver().device[address] = bytes;
  }
  auto *memory = reinterpret_cast<unsigned char *>(address);
  mprotect(memory, bytes, PROT_READ | PROT_WRITE);
  constexpr size_t kDirty = 64 << 10; // not zero where somebody looks first, and large arenas stay cheap
  std::memset(memory, 0xa5, std::min(bytes, kDirty));
  return kSuccess;
}
/// Who still uses it finds nothing there: unlike cuMemFree, the real one does not wait.
Result cuMemUnmap(Address address, size_t bytes) {
  std::lock_guard lock(driver().mutex);
  const auto found = driver().reserved.find(address);
  if (found == driver().reserved.end() || !found->second.isMapped || found->second.bytes != bytes)
    return kInvalidValue;
  found->second.isMapped = false;
  driver().device.erase(address);
  mprotect(reinterpret_cast<void *>(address), bytes, PROT_NONE);
  return kSuccess;
}
Result cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  if (Result result = mayChange("cuMemHostAlloc"); result != kSuccess)
    return result;
  if (Result result = ready(); result != kSuccess)
    return result;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  std::lock_guard lock(driver().mutex);
  driver().pinned[reinterpret_cast<uint64_t>(*memory)] = bytes;
  return *memory ? kSuccess : kOutOfMemory;
}
Result cuMemFreeHost(void *memory) {
  std::lock_guard lock(driver().mutex);
  if (!driver().pinned.erase(reinterpret_cast<uint64_t>(memory)))
    return kInvalidValue;
  std::free(memory);
  return kSuccess;
}
Result cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t bytes, Stream stream) {
  bool isPinned = false;
  {
    std::lock_guard lock(driver().mutex);
    isPinned = inside(driver().pinned, reinterpret_cast<uint64_t>(from), bytes);
  }
  if (isPinned) // read when its turn comes: who changes it before sees wrong data, as with the real one
    return copy(to, reinterpret_cast<Address>(from), bytes, stream, true, false);
  if (Result result = mayChange("a copy from memory that is not page-locked"); result != kSuccess)
    return result;
  auto staged =
      std::make_shared<std::vector<char>>(static_cast<const char *>(from), static_cast<const char *>(from) + bytes);
  if (!isDeviceMemory(reinterpret_cast<void *>(to), bytes))
    return kInvalidValue;
  return later(stream, [=] { std::memcpy(reinterpret_cast<void *>(to), staged->data(), staged->size()); });
}
Result cuMemcpyDtoHAsync_v2(void *to, Address from, size_t bytes, Stream stream) {
  {
    std::lock_guard lock(driver().mutex);
    if (!inside(driver().pinned, reinterpret_cast<uint64_t>(to), bytes)) {
      fail(kInvalidValue, "an asynchronous copy to memory that is not page-locked");
      return kInvalidValue;
    }
  }
  constexpr size_t kFew = 64;
  if (const uint64_t milliseconds = number("ZTC_STAND_IN_COPY_MS", 0); milliseconds && bytes > kFew)
    if (Result result = later(stream, [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
        result != kSuccess)
      return result;
  return copy(reinterpret_cast<Address>(to), from, bytes, stream, false, true);
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream stream) {
  if (to < from + bytes && from < to + bytes) {
    fail(kInvalidValue, "a copy between ranges that overlap");
    return kInvalidValue;
  }
  return copy(to, from, bytes, stream, true, true);
}
Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream stream) {
  if (!isDeviceMemory(reinterpret_cast<void *>(to), bytes))
    return kInvalidValue;
  return later(stream, [=] { std::memset(reinterpret_cast<void *>(to), value, bytes); });
}

} // extern "C"
} // namespace ztc::cuda
