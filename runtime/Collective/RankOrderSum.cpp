// The sum of reduceScatter: one order, whatever the transport, the pieces and the instruction set.
#include "runtime/Collective/HostCommunicator.h"
#include "runtime/Core/FloatTypes.h"
#include <algorithm>
#include <array>
#include <cstring>

namespace ztc {
namespace {

/// Elements that are summed at a time: they stay in the first-level cache from the first rank to the last.
constexpr uint64_t kBlock = 2048;

struct Bf16 {
  using Stored = uint16_t;
  static float widen(Stored bits) { return fromBf16(bits); }
  static Stored round(float value) { return toBf16(value); }
};
struct F16 {
  using Stored = uint16_t;
  static float widen(Stored bits) { return fromF16(bits); }
  static Stored round(float value) { return toF16(value); }
};

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

template <typename Type>
void sumNarrow(typename Type::Stored *out, const std::byte *const *parts, uint32_t world, uint64_t elements) {
  using Stored = typename Type::Stored;
  std::array<float, kBlock> sum;
  for (uint64_t at = 0; at < elements; at += kBlock) {
    const uint64_t count = std::min(kBlock, elements - at);
    const Stored *first = reinterpret_cast<const Stored *>(parts[0]) + at;
    for (uint64_t i = 0; i < count; ++i)
      sum[i] = Type::widen(first[i]);
    for (uint32_t r = 1; r < world; ++r) {
      const Stored *part = reinterpret_cast<const Stored *>(parts[r]) + at;
      for (uint64_t i = 0; i < count; ++i)
        sum[i] += Type::widen(part[i]);
    }
    for (uint64_t i = 0; i < count; ++i)
      out[at + i] = Type::round(sum[i]);
  }
}

} // namespace

void sumInRankOrder(void *out, const std::byte *const *parts, uint32_t world, uint64_t elements, plan::DataType type) {
  if (type == plan::BF16)
    sumNarrow<Bf16>(static_cast<uint16_t *>(out), parts, world, elements);
  else if (type == plan::F16)
    sumNarrow<F16>(static_cast<uint16_t *>(out), parts, world, elements);
  else
    sumF32(static_cast<float *>(out), parts, world, elements);
}

} // namespace ztc
