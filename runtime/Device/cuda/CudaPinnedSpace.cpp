#include "runtime/Device/cuda/CudaPinnedSpace.h"
#include "runtime/Core/HostMemory.h"
#include <cstring>
#include <fmt/format.h>
#include <string>

namespace ztc {
namespace {

class PinnedSpace : public Arena {
public:
  PinnedSpace(const CudaDriver &driver, void *memory, uint64_t bytes, std::function<void()> drain)
      : driver_(driver), drain_(std::move(drain)) {
    base_ = static_cast<std::byte *>(memory);
    bytes_ = bytes;
  }
  ~PinnedSpace() override {
    drain_();
    driver_.cuMemFreeHost(base_);
  }

private:
  const CudaDriver &driver_;
  const std::function<void()> drain_;
};

/// What the process may lock, where that is less. NVIDIA's drivers lock pages for themselves and do not count them
/// against RLIMIT_MEMLOCK, and a container's default of 64 KiB or 8 MiB would refuse runs that work: so the
/// limit is not checked beforehand, and a refusal of the driver names it.
std::string lockedLimitText(uint64_t bytes) {
  const uint64_t limit = lockableMemoryBytes();
  if (limit >= bytes)
    return {};
  return fmt::format(
      "; this process may lock {} bytes, if that is it raise it (ulimit -l unlimited; docker run --ulimit "
      "memlock=-1)",
      limit);
}

} // namespace

StatusOr<std::unique_ptr<Arena>> allocatePinnedSpace(const CudaDriver &driver, uint64_t bytes,
                                                     std::function<void()> drain) {
  void *memory = nullptr;
  if (Status status = driver.check(driver.cuMemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc"); !status.isOk())
    return resourceExhausted(
        fmt::format("the host gives no {} bytes of page-locked memory ({}){}: compile with a smaller --host-mem", bytes,
                    status.message(), lockedLimitText(bytes)));
  std::memset(memory, 0, bytes);
  return std::unique_ptr<Arena>(std::make_unique<PinnedSpace>(driver, memory, bytes, std::move(drain)));
}

} // namespace ztc
