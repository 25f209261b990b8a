#include "runtime/Core/Random.h"
#include "runtime/Core/RunParts.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace ztc {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t(0xD2511F53) * counter[0], p1 = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(p1 >> 32) ^ counter[1] ^ key[0], uint32_t(p1), uint32_t(p0 >> 32) ^ counter[3] ^ key[1],
               uint32_t(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

uint64_t hashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name)
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

static std::array<uint32_t, 4> block(uint64_t seed, uint64_t stream, uint64_t number) {
  return philox4x32({uint32_t(number), uint32_t(number >> 32), uint32_t(stream), uint32_t(stream >> 32)},
                    {uint32_t(seed), uint32_t(seed >> 32)});
}

/// Four normals from one block: two Box-Muller pairs.
static std::array<float, 4> normals(uint64_t seed, uint64_t stream, uint64_t number) {
  const std::array<uint32_t, 4> bits = block(seed, stream, number);
  std::array<float, 4> out;
  for (size_t pair = 0; pair < 2; ++pair) {
    const double u = (bits[2 * pair] + 1.0) * 0x1p-32; // (0, 1]: the logarithm is finite
    const double angle = bits[2 * pair + 1] * (2 * 3.14159265358979323846 * 0x1p-32);
    const double radius = std::sqrt(-2 * std::log(u));
    out[2 * pair] = static_cast<float>(radius * std::cos(angle));
    out[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return out;
}

float normalAt(uint64_t seed, uint64_t stream, uint64_t index) {
  return normals(seed, stream, index / 4)[index % 4];
}

static void fillRange(float *out, uint64_t count, float deviation, uint64_t seed, uint64_t stream, uint64_t begin) {
  for (uint64_t i = 0; i < count;) {
    const std::array<float, 4> four = normals(seed, stream, (begin + i) / 4);
    for (uint64_t lane = (begin + i) % 4; lane < 4 && i < count; ++lane, ++i)
      out[i] = deviation * four[lane];
  }
}

void fillNormal(float *out, uint64_t count, float deviation, uint64_t seed, uint64_t stream, uint64_t begin,
                uint32_t threads) {
  // Starting a thread takes as long as a thousand numbers.
  constexpr uint64_t kLeast = uint64_t(1) << 13;
  runStretches(count, kLeast, threads, [=](uint64_t from, uint64_t to) {
    fillRange(out + from, to - from, deviation, seed, stream, begin + from);
  });
}

void fillUniform(float *out, uint64_t count, float range, uint64_t seed, uint64_t stream, uint64_t begin) {
  for (uint64_t i = 0; i < count;) {
    const std::array<uint32_t, 4> four = block(seed, stream, (begin + i) / 4);
    for (uint64_t lane = (begin + i) % 4; lane < 4 && i < count; ++lane, ++i)
      out[i] = static_cast<float>(range * (four[lane] * 0x1p-31 - 1.0));
  }
}

uint64_t permuteIndex(uint64_t index, uint64_t count, uint64_t seed, uint64_t stream) {
  if (count <= 1)
    return index;
  const unsigned half = (static_cast<unsigned>(std::bit_width(count - 1)) + 1) / 2;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint32_t round = 0; round < 6; ++round) {
      const std::array<uint32_t, 4> mixed = philox4x32(
          {uint32_t(right), round, uint32_t(stream), uint32_t(stream >> 32)}, {uint32_t(seed), uint32_t(seed >> 32)});
      const uint64_t next = left ^ (mixed[0] & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

} // namespace ztc
