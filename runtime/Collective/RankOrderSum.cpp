// The sum of reduceScatter: one order, whatever the transport, the pieces and the instruction set.
#include "runtime/Collective/HostCommunicator.h"
#include "runtime/Format/NarrowDataType.h"
#include <algorithm>
#include <array>
#include <cstring>

namespace ztc {
namespace {

/// Elements that are summed at a time: they stay in the first-level cache from the first rank to the last.
constexpr uint64_t kBlock = 2048;

void sumF32(float *out, const std::byte *const *parts, uint32_t world, uint64_t elements) {
  std::array<float, kBlock> sum;
  for (uint64_t at = 0; at < elements; at += kBlock) {
    const uint64_t count = std::min(kBlock, elements - at);
    std::memcpy(sum.data(), reinterpret_cast<const float *>(parts[0]) + at, count * sizeof(float));
    for (uint32_t r = 1; r < world; ++r) {
      const float *part = reinterpret_cast<const float *>(parts[r]) + at;
      for (uint64_t i = 0; i < count; ++i)
        sum[i] += part[i];
    }
    std::memcpy(out + at, sum.data(), count * sizeof(float));
  }
}

void sumNarrow(uint16_t *out, const std::byte *const *parts, uint32_t world, uint64_t elements, NarrowType type) {
  std::array<float, kBlock> sum;
  for (uint64_t at = 0; at < elements; at += kBlock) {
    const uint64_t count = std::min(kBlock, elements - at);
    widen(sum.data(), reinterpret_cast<const uint16_t *>(parts[0]) + at, count, type);
    for (uint32_t r = 1; r < world; ++r)
      addWidened(sum.data(), reinterpret_cast<const uint16_t *>(parts[r]) + at, count, type);
    narrow(out + at, sum.data(), count, type);
  }
}

} // namespace

void sumInRankOrder(void *out, const std::byte *const *parts, uint32_t world, uint64_t elements, plan::DataType type) {
  if (const std::optional<NarrowType> narrowType = narrowDataType(type))
    sumNarrow(static_cast<uint16_t *>(out), parts, world, elements, *narrowType);
  else
    sumF32(static_cast<float *>(out), parts, world, elements);
}

} // namespace ztc
