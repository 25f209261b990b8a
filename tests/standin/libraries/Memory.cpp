// Memory of the stand-in driver: allocations of the device and page-locked ones of the host, and copies, each of which
// holds its addresses against them when it is asked for and again when its turn comes.
#include "tests/standin/libraries/Driver.h"
#include "tests/standin/libraries/StandIn.h"
#include <chrono>
#include <cstdlib>
#include <cstring>
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
