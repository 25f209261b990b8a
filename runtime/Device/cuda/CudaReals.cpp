#include "runtime/Device/cuda/CudaReals.h"
#include "runtime/Core/Random.h"
#include <algorithm>
#include <array>
#include <vector>

namespace ztc {

Status fillWithReals(const CudaDriver &driver, cuda::Stream stream, cuda::Address memory, uint64_t bytes) {
  std::vector<uint32_t> words(std::min<uint64_t>(bytes, uint64_t(4) << 20) / sizeof(uint32_t));
  std::array<uint32_t, 4> random{};
  for (size_t i = 0; i < words.size(); ++i) {
    if (i % 4 == 0)
      random = philox4x32({uint32_t(i / 4), 0, 0, 0}, {0, 0});
    words[i] = 0x38003800u | (random[i % 4] & 0x87ff87ffu);
  }
  uint64_t filled = words.size() * sizeof(uint32_t);
  if (!filled)
    return Status::ok();
  ZTC_RETURN_IF_ERROR(
      driver.check(driver.cuMemcpyHtoDAsync_v2(memory, words.data(), filled, stream), "cuMemcpyHtoDAsync"));
  while (filled < bytes) {
    const uint64_t part = std::min(filled, bytes - filled);
    ZTC_RETURN_IF_ERROR(
        driver.check(driver.cuMemcpyDtoDAsync_v2(memory + filled, memory, part, stream), "cuMemcpyDtoDAsync"));
    filled += part;
  }
  return driver.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize"); // `words` has been read
}

} // namespace ztc
