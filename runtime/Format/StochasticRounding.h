// Rounding of f32 to bf16 up or down with the probabilities that make the mean right, from a counter-based generator:
// the bits depend on the run's seed, the step, which value of the step it is, and the element's number, which is made
// of the name of its tensor and its place there, never of the bucket or of how that is cut.
#pragma once
#include <bit>
#include <cstdint>

namespace ztc {

/// The stream of weights that have no masters; the optimizer's states have 0, 1, ...
inline constexpr uint32_t kParameterStream = 0xffff;

/// The number of the first element of a tensor whose name has this hash; the others follow. Tensors of other names are
/// 2^32 numbers or more away, but for one in 2^32.
inline uint64_t firstElementNumber(uint64_t nameHash) {
  return (nameHash ^ nameHash << 32) & 0xffffffff00000000u;
}

/// A bijection of 32 bits in which every input bit reaches every output bit (two rounds of xor-shift and multiply).
inline uint32_t mixBits(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

/// 32 bits as a float that is neither infinite nor NaN (bit 30 is cleared): it keeps its bits wherever it is copied.
inline float randomField(uint32_t bits) {
  return std::bit_cast<float>(bits & ~(1u << 30));
}

/// What is added to the index of all elements that one step rounds in one stream. `seed` and `step` are step
/// parameters.
inline uint32_t roundingKey(float seed, float step, uint32_t stream) {
  return mixBits(std::bit_cast<uint32_t>(seed) ^ mixBits(std::bit_cast<uint32_t>(step) + 0x9e3779b9u * (stream + 1)));
}

/// The 32 bits that a key gives to an index.
inline uint32_t indexBits(uint32_t key, uint64_t index) {
  const auto low = static_cast<uint32_t>(index), high = static_cast<uint32_t>(index >> 32);
  return mixBits((low ^ 0x85ebca6bu * high) + key);
}

/// The 16 bits below the cut that are added to element `index` before it.
inline uint32_t roundingBits(uint32_t key, uint64_t index) {
  return indexBits(key, index) >> 16;
}

/// 31 bits with which element `index` is kept or dropped; `key` is roundingKey's, of the stream of the mask.
inline uint32_t maskBits(uint32_t key, uint64_t index) {
  return indexBits(key, index) >> 1;
}

/// The bf16 bits of `value`; infinity and NaN stay (a NaN becomes quiet).
inline uint16_t roundStochastically(float value, uint32_t randomBits) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | (magnitude > 0x7f800000u ? 0x40u : 0u));
  return static_cast<uint16_t>((bits + (randomBits & 0xffffu)) >> 16);
}

} // namespace ztc
