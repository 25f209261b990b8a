// Numbers in 8 bits with one scale for a tensor: the arithmetic of `quantize_fp8`, alike in the interpreter, on the
// host and, written as a kernel (compiler/Codegen/DeviceQuantizeFp8.cpp), on GPUs.
//
// Formats: Micikevicius et al. 2022, "FP8 formats for deep learning", and OCP's OFP8 1.0: e4m3 has no infinities and
// one NaN of either sign, e5m2 is an IEEE format. Scales: torchao's tensorwise dynamic scaling, scale = largest number
// of the format / max(largest magnitude, 1e-12), in f32.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace ztc {

enum class Fp8Format : uint8_t { E4m3, E5m2 };

/// Maxima that quantize_fp8's workspace has room for, one a piece of the matrix.
inline constexpr uint64_t kFp8Partials = 1024;

/// Sizes of matrices of codes are multiples of so many elements: rows then begin at multiples of 16 bytes, as libraries
/// want it, and a thread of a kernel writes whole vectors.
inline constexpr uint64_t kFp8Tile = 16;

/// Rows, and columns, of a square that a block of a GPU transposes: of codes, and of numbers that it makes codes of.
inline constexpr uint64_t kFp8TransposedSide = 128, kFp8EncodedSide = 64;

/// Squares of a matrix, those that its end cuts too.
constexpr uint64_t fp8Squares(uint64_t rows, uint64_t columns, uint64_t side) {
  return (rows + side - 1) / side * ((columns + side - 1) / side);
}

/// The largest number of the format.
constexpr float largestFp8(Fp8Format format) {
  return format == Fp8Format::E4m3 ? 448.0f : 57344.0f;
}

/// Of scales that are known before a matrix is there (delayed scaling): numbers of f32 that a matrix has of each kind,
/// an aligned vector of a GPU. Absolute maxima: the maximum first. Scales: an Fp8Scale, twice.
inline constexpr uint64_t kFp8ScaleRecord = 4;

/// Blocks that make the codes of a matrix at most, each of which finds an absolute maximum: one for each square, or,
/// where codes are not transposed, one for each kFp8EncodedSide^2 elements.
constexpr uint64_t fp8Blocks(uint64_t rows, uint64_t columns) {
  return fp8Squares(rows, columns, kFp8EncodedSide);
}

/// What a tensor is multiplied by before its elements are rounded, and the inverse, by which products are multiplied.
/// So they are in memory: cuBLASLt takes the inverse only from addresses that are multiples of 16, and says no more
/// than that a product is not supported elsewhere.
struct Fp8Scale {
  float inverse, scale;
};

/// Magnitudes below this are taken for it: the scale of a tensor of zeros.
inline constexpr float kSmallestFp8Range = 1e-12f;

/// The scale where every |element| is at most `largest`. A NaN stays one; an infinity gives the scale 0, whose codes of
/// infinities are NaN.
inline Fp8Scale fp8Scale(float largest, Fp8Format format) {
  const float scale =
      largest < kSmallestFp8Range ? float(double(largestFp8(format)) / 1e-12) : largestFp8(format) / largest;
  return {1.0f / scale, scale};
}

/// The larger of two absolute maxima; NaN where one is.
inline float largerFp8Amax(float a, float b) {
  return a > b || std::isnan(a) ? a : b;
}

/// The code nearest to `value`, ties to even; beyond the largest number that, of either sign. NaN becomes 0x7f or 0xff.
inline uint8_t toFp8(float value, Fp8Format format) {
  const bool isE4m3 = format == Fp8Format::E4m3;
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t limited = std::min(magnitude, std::bit_cast<uint32_t>(largestFp8(format)));
  // Mantissa bits that are dropped, and the exponent's bias less that of f32.
  const uint32_t dropped = isE4m3 ? 20 : 21, rebias = (isE4m3 ? 127u - 7u : 127u - 15u) << 23;
  const uint32_t rounded = (limited - rebias + ((1u << (dropped - 1)) - 1u) + ((limited >> dropped) & 1u)) >> dropped;
  // Below the smallest normal number codes are multiples of 2^-9 (2^-16): added to a float whose last bit is that, the
  // addition rounds.
  const float anchor = isE4m3 ? 0x1p14f : 0x1p7f;
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(limited) + anchor) - std::bit_cast<uint32_t>(anchor);
  const bool isSmall = limited < (isE4m3 ? std::bit_cast<uint32_t>(0x1p-6f) : std::bit_cast<uint32_t>(0x1p-14f));
  const uint32_t code = magnitude > 0x7f800000u ? 0x7fu : isSmall ? small : rounded;
  return uint8_t(code | sign);
}

/// The number of a code, which is exact.
inline float fromFp8(uint8_t code, Fp8Format format) {
  const float sign = code & 0x80u ? -1.0f : 1.0f;
  const bool isE4m3 = format == Fp8Format::E4m3;
  const uint32_t mantissaBits = isE4m3 ? 3 : 2, magnitude = code & 0x7fu;
  const uint32_t exponent = magnitude >> mantissaBits, mantissa = magnitude & ((1u << mantissaBits) - 1u);
  if (isE4m3 ? magnitude == 0x7fu : exponent == 31 && mantissa)
    return std::copysign(std::bit_cast<float>(0x7fc00000u), sign);
  if (!isE4m3 && exponent == 31)
    return sign * INFINITY;
  if (exponent == 0)
    return sign * float(mantissa) * (isE4m3 ? 0x1p-9f : 0x1p-16f);
  return sign * std::bit_cast<float>((exponent + (isE4m3 ? 120u : 112u)) << 23 | mantissa << (23 - mantissaBits));
}

} // namespace ztc
