// GELU by its tanh form, against double.
#include "runtime/Core/Gelu.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace ztc {
namespace {

TEST(Gelu, IsItsTanhFormToSixDigits) {
  double worst = 0;
  for (int i = -8000; i <= 12000; ++i) {
    const float x = float(i) * 0x1p-10f;
    const double u = double(kGeluScale) * (x + double(kGeluCubic) * x * x * x), want = x / (1 + std::exp(-2 * u));
    worst = std::max(worst, std::abs(geluTanh(x) - want) / (std::abs(want) + 1e-30));
  }
  // For negative x a rounding of u, which is up to 33, is a factor of e^(2 u).
  EXPECT_LT(worst, 1.5e-5);
  for (int i = -1024; i <= 12000; ++i) {
    const float x = float(i) * 0x1p-10f;
    const double want = 0.5 * x * (1 + std::tanh(double(kGeluScale) * (x + double(kGeluCubic) * x * x * x)));
    EXPECT_LE(std::abs(geluTanh(x) - want), 1e-6 * std::abs(want)) << x;
  }
}

TEST(Gelu, OfLargeNumbersAndNoNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(geluTanh(0), 0);
  EXPECT_EQ(geluTanh(1e3f), 1e3f);
  EXPECT_EQ(geluTanh(3e38f), 3e38f);
  EXPECT_EQ(geluTanh(kInfinity), kInfinity);
  EXPECT_NEAR(geluTanh(-1e3f), 0, 1e-34);
  EXPECT_NEAR(geluTanh(-3e38f), 0, 1e-34);
  EXPECT_TRUE(std::isnan(geluTanh(std::numeric_limits<float>::quiet_NaN())));
}

} // namespace
} // namespace ztc
