// The tanh form of GELU (Hendrycks and Gimpel 2016) in f32, by plain arithmetic that loops over it can be vectorised
// with.
#pragma once
#include <bit>
#include <cstdint>

namespace ztc {

/// u = kGeluScale (x + kGeluCubic x^3), as PyTorch has these numbers in f32: sqrt(2 / pi), and what fits erf best.
inline constexpr float kGeluScale = 0.7978845608028654f, kGeluCubic = 0.044715f;

/// e^x for |x| <= 88, and for what lies beyond that of the nearest of these; relative error below 2e-7.
__attribute__((always_inline)) inline float geluExp(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kWhole = 12582912; // added to a small number, it leaves a whole one in the lowest bits
  const float t = x < -88 ? -88.0f : x > 88 ? 88.0f : x;
  const float shifted = t * kLog2E + kWhole, whole = shifted - kWhole;
  const float r = t - whole * kLn2High - whole * kLn2Low;
  // Cephes' expf.
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kWhole) + 127;
  return (p * r * r + r + 1) * std::bit_cast<float>(exponent << 23);
}

/// 0.5 x (1 + tanh(u)), which is x / (1 + e^(-2 u)); below -16, where it is less than 1e-36, of -16.
__attribute__((always_inline)) inline float geluTanh(float x) {
  const float t = x < -16 ? -16.0f : x;
  const float u = kGeluScale * (t + kGeluCubic * (t * t * t));
  return t / (1 + geluExp(-2 * u));
}

} // namespace ztc
