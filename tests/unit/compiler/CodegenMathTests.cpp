// The polynomial functions against long double, densely sampled; largest errors in units in the last place.
#include "KernelHarness.h"
#include "compiler/Codegen/MathExpand.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <iterator>
#include <limits>

using namespace ztc;
using namespace ztc::test;

namespace {
using Exact = long double (*)(long double);

/// y = op(x) for every x, by a flat kernel.
std::vector<float> evaluate(const std::string &op, const std::vector<float> &x) {
  Group group("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {\n %y = graph." + op +
              " : tensor<?xf32>\n return %y : tensor<?xf32> }");
  Bytes bytes(reinterpret_cast<const char *>(x.data()), reinterpret_cast<const char *>(x.data() + x.size()));
  RunOptions options;
  options.length = x.size();
  std::vector<Bytes> result = runGroup(group.fusion(), {bytes}, options);
  std::vector<float> y(x.size());
  if (result.size() == 1)
    std::copy(result[0].begin(), result[0].end(), reinterpret_cast<char *>(y.data()));
  return y;
}

/// Every `stride`-th float between the bit patterns of 0 and infinity, both signs.
std::vector<float> samples(uint32_t stride, float low, float high) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < 0x7f800000; bits += stride)
    for (float sign : {1.0f, -1.0f}) {
      float value = std::copysign(std::bit_cast<float>(uint32_t(bits)), sign);
      if (value >= low && value <= high)
        x.push_back(value);
    }
  return x;
}

double ulpError(float got, long double want) {
  float rounded = static_cast<float>(want);
  if (std::isnan(rounded) || std::isinf(rounded) || std::isnan(got) || std::isinf(got))
    return (std::isnan(rounded) && std::isnan(got)) || rounded == got ? 0.0 : 1e9;
  int exponent = std::max(std::ilogb(rounded == 0 ? 1e-45f : rounded), -126);
  return static_cast<double>(std::abs((got - want) / std::ldexp(1.0L, exponent - 23)));
}

void expectUlp(const std::string &op, Exact exact, double limit, float low = -INFINITY, float high = INFINITY,
               uint32_t stride = 4099) {
  std::vector<float> x = samples(stride, low, high), y = evaluate(op, x);
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (double error = ulpError(y[i], exact(x[i])); error > worst) {
      worst = error;
      at = x[i];
    }
  EXPECT_LE(worst, limit) << op << " at " << at;
  ::testing::Test::RecordProperty(op, std::to_string(worst));
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

void expectSpecial(const std::string &op, const std::vector<float> &x, const std::vector<float> &want) {
  std::vector<float> got = evaluate(op, x);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_TRUE(std::isnan(want[i]) ? std::isnan(got[i])
                                    : std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want[i]))
        << op << "(" << x[i] << ") = " << got[i] << ", not " << want[i];
}
} // namespace

// The kernels of attention and the loss have it; what they compute is held elsewhere, the coefficients here.
TEST(CodegenMath, NarrowExpIsFarBetterThanSixteenBits) {
  double worst = 0, near = 0;
  for (float x : samples(977, -87.0f, 0.0f)) {
    const float magic = 12582912.0f + 127.0f, shifted = std::fma(x, 0x1.715476p0f, magic);
    const float r = std::fma(x, 0x1.715476p0f, magic - shifted);
    float sum = float(std::end(codegen::kNarrowExp)[-1]);
    for (size_t i = std::size(codegen::kNarrowExp) - 1; i-- > 0;)
      sum = std::fma(sum, r, float(codegen::kNarrowExp[i]));
    const float y = sum * std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
    const double error = std::abs(double(y / std::exp((long double)x)) - 1);
    worst = std::max(worst, error);
    near = x > -10 ? std::max(near, error) : near;
  }
  EXPECT_LT(near, 2.5e-7);
  EXPECT_LT(worst, 1.3e-6);
  ::testing::Test::RecordProperty("near", std::to_string(near));
}

// Of what is rounded to 16 bits. Relative errors; what is below 2^-126 may be 0.
TEST(CodegenMath, SigmoidOfNarrowResultsIsFarBetterThanSixteenBits) {
  const std::string op = "sigmoid %x {graph.rounded_narrow}";
  const std::vector<float> x = samples(977, -200.0f, 200.0f), y = evaluate(op, x);
  double worst = 0, near = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const long double want = 1 / (1 + std::exp(-(long double)x[i]));
    if (want < 0x1p-125L) {
      EXPECT_LT(y[i], 0x1p-124f) << x[i];
      continue;
    }
    const double error = std::abs(double(y[i] / want) - 1);
    worst = std::max(worst, error);
    near = std::abs(x[i]) <= 10 ? std::max(near, error) : near;
  }
  EXPECT_LT(near, 5e-7);
  EXPECT_LT(worst, 1.5e-6);
  expectSpecial(op, {kNan, -kInf}, {kNan, 0.0f});
  EXPECT_NEAR(evaluate(op, {kInf})[0], 1, 1e-7);
}

TEST(CodegenMath, ErrorsInUlp) {
  expectUlp("exp %x", [](long double x) { return std::exp(x); }, 1.5);
  expectUlp("log %x", [](long double x) { return std::log(x); }, 1.0, 0.0f);
  expectUlp("tanh %x", [](long double x) { return std::tanh(x); }, 2.0);
  expectUlp("sigmoid %x", [](long double x) { return 1 / (1 + std::exp(-x)); }, 2.5);
  expectUlp("erf %x", [](long double x) { return std::erf(x); }, 2.0);
  expectUlp("sin %x", [](long double x) { return std::sin(x); }, 1.0);
  expectUlp("cos %x", [](long double x) { return std::cos(x); }, 1.0);
  expectUlp("atan %x", [](long double x) { return std::atan(x); }, 1.0);
  expectUlp("expm1 %x", [](long double x) { return std::expm1(x); }, 1.0);
  expectUlp("log1p %x", [](long double x) { return std::log1p(x); }, 1.0, -1.0f);
  expectUlp("round \"floor\", %x", [](long double x) { return std::floor(x); }, 0.0);
  expectUlp("round \"ceil\", %x", [](long double x) { return std::ceil(x); }, 0.0);
  expectUlp("round \"even\", %x", [](long double x) { return std::nearbyint(x); }, 0.0);
  expectUlp("round \"truncate\", %x", [](long double x) { return std::trunc(x); }, 0.0);
  expectUlp("rsqrt %x", [](long double x) { return 1 / std::sqrt(x); }, 1.5, 0.0f);
  expectUlp("sqrt %x", [](long double x) { return std::sqrt(x); }, 0.5, 0.0f);
  expectUlp("power %x, 0.3", [](long double x) { return std::pow(x, 0.3L); }, 1.0, 0.0f);
  expectUlp("power %x, 3.0", [](long double x) { return x * x * x; }, 1.6, -1e12f, 1e12f);
  expectUlp("power %x, -2.0", [](long double x) { return 1 / (x * x); }, 1.6, 1e-12f, 1e12f);
  expectUlp("power %x, -1.7", [](long double x) { return std::pow(x, -1.7L); }, 1.0, 0.0f);
}

TEST(CodegenMath, SpecialValues) {
  expectSpecial("exp %x", {kNan, kInf, -kInf, 0.0f, -0.0f, 89.0f, -104.0f}, {kNan, kInf, 0.0f, 1.0f, 1.0f, kInf, 0.0f});
  expectSpecial("log %x", {kNan, kInf, -kInf, 0.0f, -0.0f, 1.0f, -1.0f}, {kNan, kInf, kNan, -kInf, -kInf, 0.0f, kNan});
  expectSpecial("tanh %x", {kNan, kInf, -kInf, 0.0f, -0.0f}, {kNan, 1.0f, -1.0f, 0.0f, -0.0f});
  expectSpecial("sigmoid %x", {kNan, kInf, -kInf, 0.0f}, {kNan, 1.0f, 0.0f, 0.5f});
  expectSpecial("erf %x", {kNan, kInf, -kInf, 0.0f, -0.0f}, {kNan, 1.0f, -1.0f, 0.0f, -0.0f});
  expectSpecial("sin %x", {kNan, kInf, -kInf, 0.0f, -0.0f}, {kNan, kNan, kNan, 0.0f, -0.0f});
  expectSpecial("cos %x", {kNan, kInf, 0.0f, -0.0f}, {kNan, kNan, 1.0f, 1.0f});
  expectSpecial("atan %x", {kNan, kInf, -kInf, 0.0f, -0.0f}, {kNan, 1.57079637f, -1.57079637f, 0.0f, -0.0f});
  expectSpecial("expm1 %x", {kNan, kInf, -kInf, 0.0f, -0.0f}, {kNan, kInf, -1.0f, 0.0f, -0.0f});
  expectSpecial("log1p %x", {kNan, kInf, -1.0f, 0.0f, -0.0f, -2.0f}, {kNan, kInf, -kInf, 0.0f, -0.0f, kNan});
  expectSpecial("round \"even\", %x", {kNan, kInf, 0.5f, 1.5f, -2.5f}, {kNan, kInf, 0.0f, 2.0f, -2.0f});
  expectSpecial("rsqrt %x", {kNan, kInf, 0.0f, 4.0f, -1.0f}, {kNan, 0.0f, kInf, 0.5f, kNan});
  expectSpecial("power %x, 0.3", {kNan, kInf, 0.0f, 1.0f, -1.0f}, {kNan, kInf, 0.0f, 1.0f, kNan});
  expectSpecial("power %x, -0.3", {kNan, kInf, 0.0f}, {kNan, 0.0f, kInf});
}

namespace {
/// y = op(a, b), elementwise.
std::vector<float> evaluate(const std::string &op, const std::vector<float> &a, const std::vector<float> &b) {
  Group group("func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {\n %y = graph." + op +
              " %a, %b : tensor<?xf32>\n return %y : tensor<?xf32> }");
  auto bytes = [](const std::vector<float> &x) {
    return Bytes(reinterpret_cast<const char *>(x.data()), reinterpret_cast<const char *>(x.data() + x.size()));
  };
  RunOptions options;
  options.length = a.size();
  std::vector<Bytes> result = runGroup(group.fusion(), {bytes(a), bytes(b)}, options);
  std::vector<float> y(a.size());
  if (result.size() == 1)
    std::copy(result[0].begin(), result[0].end(), reinterpret_cast<char *>(y.data()));
  return y;
}
} // namespace

// Every pair of these, and of ordinary numbers, against the C library.
TEST(CodegenMath, FunctionsOfTwoNumbers) {
  std::vector<float> numbers{0.0f,  1.0f,   -1.0f,  0.5f,  2.0f, -2.0f, 3.0f, -3.0f,       2.5f, -2.5f, 7.25f, 1e-3f,
                             1e10f, -1e10f, 1e-10f, 1e30f, kInf, -kInf, kNan, 16777216.0f, 0.1f, -0.1f, 33.0f, 1e-40f};
  std::vector<float> a, b;
  for (float x : numbers)
    for (float y : numbers) {
      a.push_back(x);
      b.push_back(y);
    }
  std::vector<float> powers = evaluate("tensor_power", a, b), remainders = evaluate("remainder", a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE(ulpError(powers[i], std::pow((long double)a[i], (long double)b[i])), 1.0)
        << a[i] << " to " << b[i] << " = " << powers[i];
    if (std::isfinite(a[i]) && std::abs((long double)a[i] / b[i]) >= 0x1p100L && b[i] != 0)
      continue;
    EXPECT_LE(ulpError(remainders[i], std::fmod((long double)a[i], (long double)b[i])), 0.0)
        << a[i] << " modulo " << b[i] << " = " << remainders[i];
  }
}

TEST(CodegenMath, IntegersDivideWithoutTraps) {
  expectLikeReference(
      R"(func.func @f(%a: tensor<37xi32>, %b: tensor<37xi32>) -> (tensor<37xi32>, tensor<37xi32>, tensor<37xi32>) {
    %q = graph.div %a, %b : tensor<37xi32>
    %r = graph.remainder %a, %b : tensor<37xi32>
    %three = graph.constant dense<-3> : tensor<37xi32>
    %n = graph.add %a, %three : tensor<37xi32>
    %m = graph.remainder %n, %b : tensor<37xi32>
    return %q, %r, %m : tensor<37xi32>, tensor<37xi32>, tensor<37xi32> })");
  expectLikeReference(R"(func.func @f(%a: tensor<5x7xi64>, %b: tensor<5x7xi64>) -> (tensor<5x7xi64>, tensor<5x1xi64>) {
    %q = graph.logic xor, %a, %b : tensor<5x7xi64>
    %s = graph.reduce_sum %q, [1] : tensor<5x7xi64> -> tensor<5x1xi64>
    return %q, %s : tensor<5x7xi64>, tensor<5x1xi64> })");
}
