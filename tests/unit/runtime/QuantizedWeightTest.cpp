// Weights in fewer bits against bitsandbytes (tests/golden/quantized.safetensors, made by quantized.py there).
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Core/Random.h"
#include "runtime/Format/Safetensors.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

namespace ztc {
namespace {

const std::filesystem::path kGolden =
    std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "golden/quantized.safetensors";

constexpr const char *kNames[] = {"rows", "odd", "blocks", "zeros", "multiples", "halves"};

class Golden {
public:
  explicit Golden(std::string name) : file_(std::move(*SafetensorsFile::open(kGolden))), name_(std::move(name)) {}

  std::span<const std::byte> bytes(const std::string &part) const {
    const SafetensorsTensor *tensor = file_.find(name_ + "." + part);
    EXPECT_TRUE(tensor) << name_ << " " << part;
    return tensor ? file_.data(*tensor) : std::span<const std::byte>();
  }
  std::vector<float> floats(const std::string &part) const {
    const std::span<const std::byte> from = bytes(part);
    std::vector<float> values(from.size() / sizeof(float));
    std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  QuantizedLayout layout(plan::WeightFormat format) const {
    const std::vector<int64_t> &shape = file_.find(name_ + ".weight")->shape;
    return quantizedLayout(format, uint64_t(shape[0]), uint64_t(shape[1])).value();
  }
  std::vector<std::byte> quantized(plan::WeightFormat format, uint32_t threads = 2) const {
    const std::vector<float> weight = floats("weight");
    return quantize(
        layout(format),
        [&](uint64_t begin, uint64_t count, float *out) { std::copy_n(weight.data() + begin, count, out); }, threads);
  }

private:
  SafetensorsFile file_;
  std::string name_;
};

bool areEqual(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

/// The same numbers, bit for bit.
void expectNumbers(const std::vector<std::byte> &bytes, const QuantizedLayout &layout, const std::vector<float> &want) {
  std::vector<float> got(layout.elements());
  dequantize(bytes.data(), layout, 0, got.size(), got.data());
  EXPECT_TRUE(areEqual(std::as_bytes(std::span(got)), std::as_bytes(std::span(want))));
  if (layout.elements() <= kNf4Block)
    return;
  std::vector<float> rest(layout.elements() - kNf4Block); // from within
  dequantize(bytes.data(), layout, kNf4Block, rest.size(), rest.data());
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), want.begin() + kNf4Block));
}

TEST(QuantizedWeight, Nf4HasTheCodesOfBitsandbytes) {
  for (const char *name : kNames) {
    SCOPED_TRACE(name);
    const Golden golden(name);
    const QuantizedLayout layout = golden.layout(plan::NF4);
    const std::vector<std::byte> bytes = golden.quantized(plan::NF4);
    ASSERT_EQ(bytes.size(), layout.bytes);
    const auto part = [&](uint64_t offset, uint64_t size) { return std::span(bytes).subspan(offset, size); };
    EXPECT_TRUE(areEqual(part(0, (layout.elements() + 1) / 2), golden.bytes("codes")));
    EXPECT_TRUE(areEqual(part(layout.scales, layout.blocks()), golden.bytes("absmax")));
    EXPECT_TRUE(areEqual(part(layout.nestedMap, kNestedMap * 4), golden.bytes("nested_map")));
    EXPECT_TRUE(areEqual(part(layout.map, kNf4Map * 4), golden.bytes("map")));
    // Its mean is summed in another order.
    float mean;
    std::memcpy(&mean, bytes.data() + layout.mean, sizeof mean);
    EXPECT_NEAR(mean, golden.floats("mean")[0], 2e-7 * std::fabs(mean));
    EXPECT_EQ(golden.quantized(plan::NF4, 1), bytes) << "on another number of threads";
  }
}

TEST(QuantizedWeight, Nf4HasTheNumbersOfBitsandbytes) {
  for (const char *name : kNames) {
    SCOPED_TRACE(name);
    const Golden golden(name);
    const QuantizedLayout layout = golden.layout(plan::NF4);
    std::vector<std::byte> bytes(layout.bytes); // of its codes and scales
    const auto put = [&](uint64_t offset, const char *part) {
      const std::span<const std::byte> from = golden.bytes(part);
      std::memcpy(bytes.data() + offset, from.data(), from.size());
    };
    put(0, "codes"), put(layout.scales, "absmax"), put(layout.nestedScales, "nested_absmax");
    put(layout.nestedMap, "nested_map"), put(layout.map, "map"), put(layout.mean, "mean");
    expectNumbers(bytes, layout, golden.floats("nf4"));
  }
}

TEST(QuantizedWeight, SingleNf4HasTheScalesAndNumbersOfBitsandbytes) {
  for (const char *name : kNames) {
    SCOPED_TRACE(name);
    const Golden golden(name);
    const QuantizedLayout layout = golden.layout(plan::NF4_SINGLE);
    const std::vector<std::byte> bytes = golden.quantized(plan::NF4_SINGLE);
    ASSERT_EQ(bytes.size(), layout.bytes);
    EXPECT_EQ(layout.bytes, layout.map + kNf4Map * 4);
    const auto part = [&](uint64_t offset, uint64_t size) { return std::span(bytes).subspan(offset, size); };
    EXPECT_TRUE(areEqual(part(0, (layout.elements() + 1) / 2), golden.bytes("codes")));
    EXPECT_TRUE(areEqual(part(layout.scales, layout.blocks() * 4), golden.bytes("scales")));
    EXPECT_TRUE(areEqual(part(layout.map, kNf4Map * 4), golden.bytes("map")));
    expectNumbers(bytes, layout, golden.floats("nf4_single"));
  }
}

TEST(QuantizedWeight, AsOneRowElementsHaveTheScalesOfTheirBlocks) {
  const Golden golden("halves");
  const QuantizedLayout layout = golden.layout(plan::NF4), row = *quantizedLayout(plan::NF4, 1, layout.elements());
  EXPECT_TRUE(layout.hasScalesByRow());
  EXPECT_EQ(row.bytes, layout.bytes);
  const std::vector<std::byte> bytes = golden.quantized(plan::NF4);
  const std::vector<float> weight = golden.floats("weight");
  const auto errorOf = [&](const QuantizedLayout &as) {
    std::vector<float> numbers(as.elements());
    dequantize(bytes.data(), as, 0, numbers.size(), numbers.data());
    double error = 0, norm = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      error += (numbers[i] - weight[i]) * (numbers[i] - weight[i]);
      norm += weight[i] * weight[i];
    }
    return std::sqrt(error / norm);
  };
  EXPECT_LT(errorOf(row), 0.12);
  EXPECT_GT(errorOf(layout), 0.2);
}

TEST(QuantizedWeight, Int8HasTheCodesAndNumbersOfBitsandbytes) {
  for (const char *name : kNames) {
    SCOPED_TRACE(name);
    const Golden golden(name);
    const QuantizedLayout layout = golden.layout(plan::INT8);
    const std::vector<std::byte> bytes = golden.quantized(plan::INT8);
    EXPECT_TRUE(areEqual(std::span(bytes).first(layout.elements()), golden.bytes("int8_codes")));
    EXPECT_TRUE(areEqual(std::span(bytes).subspan(layout.scales, layout.rows * 4), golden.bytes("int8_scales")));
    expectNumbers(bytes, layout, golden.floats("int8"));
  }
}

TEST(QuantizedWeight, ReadsEachElementOnceInPieces) {
  const QuantizedLayout layout = quantizedLayout(plan::NF4, 513, 1031).value();
  std::vector<int> reads(layout.elements());
  const std::vector<std::byte> bytes = quantize(
      layout,
      [&](uint64_t begin, uint64_t count, float *out) {
        EXPECT_LE(count, uint64_t(1) << 16);
        for (uint64_t i = 0; i < count; ++i) {
          ++reads[begin + i];
          out[i] = float(normalAt(1, 2, begin + i));
        }
      },
      4);
  EXPECT_TRUE(std::all_of(reads.begin(), reads.end(), [](int count) { return count == 1; }));
  std::vector<float> numbers(layout.elements());
  dequantize(bytes.data(), layout, 0, numbers.size(), numbers.data());
  double error = 0, norm = 0;
  for (uint64_t i = 0; i < numbers.size(); ++i) {
    const double x = float(normalAt(1, 2, i));
    error += (numbers[i] - x) * (numbers[i] - x);
    norm += x * x;
  }
  EXPECT_LT(error / norm, 0.01); // 8 to 9 % of a normal number
}

TEST(QuantizedWeight, OfATransposedMatrixAreTheBytesOfTheOther) {
  constexpr uint64_t kRows = 200, kColumns = 88; // of the checkpoint's matrix
  const auto element = [](uint64_t row, uint64_t column) { return std::sin(float(row * 131 + column * 7)); };
  plan::Parameter parameter;
  parameter.set_format(plan::NF4);
  parameter.add_quantized_shape(kRows);
  parameter.add_quantized_shape(kColumns);
  parameter.set_quantized_transposed(true);
  const std::optional<QuantizedLayout> layout = quantizedLayout(parameter);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->rows, kColumns);
  EXPECT_EQ(layout->columns, kRows);
  const ElementReader stored = [&](uint64_t begin, uint64_t count, float *out) {
    for (uint64_t i = begin; i < begin + count; ++i)
      *out++ = element(i / kColumns, i % kColumns);
  };
  const ElementReader turned = [&](uint64_t begin, uint64_t count, float *out) {
    for (uint64_t i = begin; i < begin + count; ++i)
      *out++ = element(i % kRows, i / kRows);
  };
  EXPECT_EQ(quantize(*layout, quantizedReader(parameter, stored), 2), quantize(*layout, turned, 1));
  parameter.set_quantized_transposed(false);
  EXPECT_EQ(quantizedLayout(parameter)->rows, kRows);
  EXPECT_NE(quantize(*quantizedLayout(parameter), quantizedReader(parameter, stored), 1), quantize(*layout, turned, 1));
}

static std::vector<float> throughMxfp4(const std::vector<float> &from, uint32_t threads = 1) {
  const QuantizedLayout layout = quantizedLayout(plan::MXFP4, 1, from.size()).value();
  const std::vector<std::byte> bytes = quantize(
      layout,
      [&](uint64_t begin, uint64_t count, float *out) { std::copy_n(from.begin() + int64_t(begin), count, out); },
      threads);
  std::vector<float> numbers(from.size());
  dequantize(bytes.data(), layout, 0, numbers.size(), numbers.data());
  return numbers;
}

/// OCP Microscaling Formats 1.0, 6.3: the scale is that of the greatest magnitude, numbers are rounded to the nearest,
/// ties to even, and beyond 6 saturate.
TEST(QuantizedWeight, Mxfp4RoundsAsItsSpecificationSays) {
  std::vector<float> from{4, 0.25f, 0.2501f, 0.75f, 1.25f, 1.26f, 1.75f, 2.5f, 2.51f, 3.5f, 5, 5.01f, 7.9f, -0.75f, -6};
  std::vector<float> want{4, 0, 0.5f, 1, 1, 1.5f, 2, 2, 3, 4, 4, 6, 6, -1, -6};
  EXPECT_EQ(throughMxfp4(from), want);
  for (float power : {0x1p-100f, 0x1p-20f, 0x1p40f}) {
    std::vector<float> scaled = from, wanted = want;
    for (size_t i = 0; i < from.size(); ++i)
      scaled[i] *= power, wanted[i] *= power;
    EXPECT_EQ(throughMxfp4(scaled), wanted) << power;
  }
  EXPECT_EQ(throughMxfp4({0, 0, 0}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(throughMxfp4({0x1p-149f, -0x1p-130f}), (std::vector<float>{0, -0.0f})); // below the least scale's codes
}

/// What a checkpoint in mxfp4 stands for stays what it is, whatever the greatest code of a block.
TEST(QuantizedWeight, Mxfp4KeepsNumbersOfItsForm) {
  std::vector<float> from;
  for (int exponent = -110; exponent < 100; ++exponent)
    for (int greatest = 1; greatest < 8; ++greatest)
      for (uint64_t i = 0; i < kMxfp4Block; ++i) {
        const int code = int((i * 7 + uint64_t(greatest)) % uint64_t(greatest + 1));
        from.push_back(std::ldexp(e2m1Map()[size_t(i ? code : greatest)], exponent) * (i % 3 ? 1.0f : -1.0f));
      }
  EXPECT_EQ(throughMxfp4(from, 3), from);
}

TEST(QuantizedWeight, OfAStackAreTheBytesOfItsMatrices) {
  plan::Parameter parameter;
  parameter.set_format(plan::MXFP4);
  for (int64_t size : {3, 64, 5})
    parameter.add_quantized_shape(size);
  parameter.set_quantized_transposed(true);
  const QuantizedLayout layout = quantizedLayout(parameter).value();
  EXPECT_EQ(layout.rows, 15u);
  EXPECT_EQ(layout.columns, 64u);
  const auto element = [](uint64_t matrix, uint64_t input, uint64_t output) {
    return float(int(matrix * 31 + input * 7 + output * 3) % 19 - 9);
  };
  const ElementReader stored = [&](uint64_t begin, uint64_t count, float *out) {
    for (uint64_t i = begin; i < begin + count; ++i)
      *out++ = element(i / 320, i % 320 / 5, i % 5);
  };
  const ElementReader turned = [&](uint64_t begin, uint64_t count, float *out) {
    for (uint64_t i = begin; i < begin + count; ++i)
      *out++ = element(i / 320, i % 64, i % 320 / 64);
  };
  EXPECT_EQ(quantize(layout, quantizedReader(parameter, stored), 2), quantize(layout, turned, 1));
  parameter.mutable_quantized_shape()->Set(0, int64_t(1) << 62);
  EXPECT_FALSE(quantizedLayout(parameter));
}

TEST(QuantizedWeight, LayoutsAreOfMatrices) {
  EXPECT_FALSE(quantizedLayout(plan::PLAIN, 4, 4));
  EXPECT_FALSE(quantizedLayout(plan::NF4, 0, 4));
  EXPECT_FALSE(quantizedLayout(plan::NF4_SINGLE, 4, 0));
  EXPECT_FALSE(quantizedLayout(plan::NF4, uint64_t(1) << 40, uint64_t(1) << 40));
  const QuantizedLayout layout = quantizedLayout(plan::NF4, 4096, 14336).value();
  EXPECT_LT(double(layout.bytes) * 8 / double(layout.elements()), 4.13);
  for (uint64_t part : {layout.scales, layout.nestedScales, layout.nestedMap, layout.map, layout.mean})
    EXPECT_EQ(part % 16, 0u);
  const QuantizedLayout single = quantizedLayout(plan::NF4_SINGLE, 4096, 14336).value();
  EXPECT_EQ(single.bytes, single.elements() / 2 + single.blocks() * 4 + kNf4Map * 4);
  EXPECT_EQ(quantizedLayout(plan::NF4_SINGLE, 7, 13)->map % 16, 0u);
  const QuantizedLayout powers = quantizedLayout(plan::MXFP4, 4096, 14336).value();
  EXPECT_EQ(powers.bytes, powers.elements() / 2 + powers.elements() / 32 + kNf4Map * 4);
  for (plan::WeightFormat format : {plan::PLAIN, plan::NF4, plan::INT8, plan::NF4_SINGLE, plan::MXFP4})
    EXPECT_EQ(weightFormat(weightFormatName(format)), format);
}

} // namespace
} // namespace ztc
