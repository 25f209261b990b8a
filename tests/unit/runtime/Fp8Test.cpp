// Codes in fp8 against PyTorch's casts (tests/golden/fp8_codes.safetensors, made by fp8.py there).
#include "runtime/Core/Fp8.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/Safetensors.h"
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>

namespace ztc {
namespace {

const std::filesystem::path kGolden =
    std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "golden/fp8_codes.safetensors";

template <typename T> std::vector<T> read(const std::string &name) {
  const SafetensorsFile file = std::move(*SafetensorsFile::open(kGolden));
  const SafetensorsTensor *tensor = file.find(name);
  EXPECT_TRUE(tensor) << name;
  if (!tensor)
    return {};
  const std::span<const std::byte> bytes = file.data(*tensor);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Named {
  const char *name;
  Fp8Format format;
};
constexpr Named kFormats[] = {{"e4m3", Fp8Format::E4m3}, {"e5m2", Fp8Format::E5m2}};

TEST(Fp8, CodesOfAllBf16NumbersArePyTorchs) {
  for (auto [name, format] : kFormats) {
    const auto codes = read<uint8_t>(std::string(name) + ".bf16");
    ASSERT_EQ(codes.size(), 65536u);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float number = fromBf16(uint16_t(bits));
      // Which NaN it is, is not said: PyTorch's clamp may drop the sign.
      if (std::isnan(number))
        EXPECT_EQ(toFp8(number, format) & 0x7f, 0x7f) << name << " " << bits;
      else
        EXPECT_EQ(toFp8(number, format), codes[bits]) << name << " " << bits << " " << number;
    }
  }
}

TEST(Fp8, CodesOfFloatsArePyTorchs) {
  const auto floats = read<float>("floats");
  for (auto [name, format] : kFormats) {
    const auto codes = read<uint8_t>(std::string(name) + ".floats");
    ASSERT_EQ(codes.size(), floats.size());
    for (size_t i = 0; i < floats.size(); ++i)
      EXPECT_EQ(toFp8(floats[i], format), codes[i]) << name << " " << floats[i];
  }
}

TEST(Fp8, NumbersOfCodesArePyTorchsAndBackAgain) {
  for (auto [name, format] : kFormats) {
    const auto numbers = read<float>(std::string(name) + ".numbers");
    ASSERT_EQ(numbers.size(), 256u);
    for (unsigned code = 0; code < 256; ++code) {
      const float number = fromFp8(uint8_t(code), format);
      if (std::isnan(numbers[code])) {
        EXPECT_TRUE(std::isnan(number)) << name << " " << code;
        continue;
      }
      EXPECT_EQ(std::bit_cast<uint32_t>(number), std::bit_cast<uint32_t>(numbers[code])) << name << " " << code;
      if (std::isfinite(number)) // what is not, is saturated
        EXPECT_EQ(toFp8(number, format), code) << name;
    }
  }
}

TEST(Fp8, TiesGoToEvenAndTheLargestNumberIsTheEnd) {
  for (auto [name, format] : kFormats) {
    const unsigned last = format == Fp8Format::E4m3 ? 0x7e : 0x7b;
    EXPECT_EQ(fromFp8(uint8_t(last), format), largestFp8(format));
    for (unsigned code = 0; code < last; ++code) {
      const float low = fromFp8(uint8_t(code), format), high = fromFp8(uint8_t(code + 1), format),
                  middle = (low + high) / 2;
      EXPECT_EQ(toFp8(middle, format), code % 2 ? code + 1 : code) << name;
      EXPECT_EQ(toFp8(std::nextafter(middle, 0.0f), format), code) << name;
      EXPECT_EQ(toFp8(-std::nextafter(middle, high), format), (code + 1) | 0x80) << name;
    }
    EXPECT_EQ(toFp8(std::numeric_limits<float>::infinity(), format), last);
    EXPECT_EQ(toFp8(-std::numeric_limits<float>::max(), format), last | 0x80);
  }
}

TEST(Fp8, ScalesAreThoseOfTorchao) {
  EXPECT_EQ(fp8Scale(1.0f, Fp8Format::E4m3).scale, 448.0f);
  EXPECT_EQ(fp8Scale(3.0f, Fp8Format::E5m2).scale, float(57344.0 / 3.0));
  EXPECT_EQ(fp8Scale(3.0f, Fp8Format::E5m2).inverse, 1.0f / float(57344.0 / 3.0));
  EXPECT_EQ(fp8Scale(0.0f, Fp8Format::E4m3).scale, float(448.0 / 1e-12));
  EXPECT_TRUE(std::isnan(fp8Scale(std::numeric_limits<float>::quiet_NaN(), Fp8Format::E4m3).scale));
  EXPECT_EQ(fp8Scale(std::numeric_limits<float>::infinity(), Fp8Format::E4m3).scale, 0.0f);
}

} // namespace
} // namespace ztc
