// Conversions between f32 and the narrow floating-point types, by bits.
#pragma once
#include <bit>
#include <cstdint>

namespace ztc {

inline float fromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Round to nearest, ties to even; NaN stays a (quiet) NaN.
inline uint16_t toBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// An f32 master weight as a bf16 parameter and the signed 16 bits that lead back to it, without loss.
struct SplitMaster {
  uint16_t parameter; ///< the master rounded half away from zero
  int16_t remainder;  ///< the lower half of the master's bits
};

inline SplitMaster splitMaster(float master) {
  const auto bits = std::bit_cast<uint32_t>(master);
  return {static_cast<uint16_t>((bits + 0x8000u) >> 16), static_cast<int16_t>(bits & 0xffffu)};
}

inline float joinMaster(uint16_t parameter, int16_t remainder) {
  return std::bit_cast<float>((static_cast<uint32_t>(parameter) << 16) + static_cast<uint32_t>(remainder));
}

inline float fromF16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 31u, mantissa = half & 1023u;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) { // zero or denormal: mantissa * 2^-24
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// Round to nearest, ties to even; too large becomes infinity, NaN stays a (quiet) NaN.
inline uint16_t toF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) // 65520 and above round to infinity
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14 halves are multiples of 2^-24. Adding 0.5 puts the value into a float whose last bit is 2^-24: the
    // addition rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

} // namespace ztc
