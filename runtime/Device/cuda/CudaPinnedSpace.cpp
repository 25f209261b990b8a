#include "runtime/Device/cuda/CudaPinnedSpace.h"
#include <cstring>
#include <fmt/format.h>

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

} // namespace

StatusOr<std::unique_ptr<Arena>> allocatePinnedSpace(const CudaDriver &driver, uint64_t bytes,
                                                     std::function<void()> drain) {
  void *memory = nullptr;
  if (Status status = driver.check(driver.cuMemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc"); !status.isOk())
    return resourceExhausted(
        fmt::format("the host gives no {} bytes of page-locked memory ({}): compile with a smaller --host-mem", bytes,
                    status.message()));
  std::memset(memory, 0, bytes);
  return std::unique_ptr<Arena>(std::make_unique<PinnedSpace>(driver, memory, bytes, std::move(drain)));
}

} // namespace ztc
