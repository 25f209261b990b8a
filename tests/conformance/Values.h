// Random values for tests of steps and kernels, and how far results are from what they should be.
#pragma once
#include "runtime/Format/NarrowDataType.h"
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace ztc::test {

/// Normally distributed numbers of a fixed sequence.
inline std::vector<float> randomFloats(size_t count, uint32_t seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution(0, scale);
  std::vector<float> values(count);
  for (float &value : values)
    value = distribution(generator);
  return values;
}

/// Largest difference relative to the largest magnitude of the reference.
inline double relativeError(std::span<const float> got, std::span<const double> want) {
  double difference = 0, magnitude = 1e-30;
  for (size_t i = 0; i < want.size(); ++i) {
    double error = std::abs(double(got[i]) - want[i]);
    difference = error > difference || error != error ? error : difference;
    magnitude = std::max(magnitude, std::abs(want[i]));
  }
  return difference / magnitude;
}

inline bool sameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// Rounds each value to what `type` holds; f32 changes nothing.
inline void roundTo(std::vector<float> &values, plan::DataType type) {
  if (const auto narrowType = narrowDataType(type)) {
    std::vector<uint16_t> bits(values.size());
    narrow(bits.data(), values.data(), values.size(), *narrowType);
    widen(values.data(), bits.data(), values.size(), *narrowType);
  }
}

/// Half a unit in the last place of the smallest value with its exponent, relative: what rounding once may cost.
inline double roundingError(plan::DataType type) {
  return type == plan::BF16 ? 0x1p-8 : type == plan::F16 ? 0x1p-11 : 0;
}

} // namespace ztc::test
