// Optimizer states in 8 bits against bitsandbytes (tests/golden/block_states.safetensors, made by block_states.py
// there).
#include "runtime/Format/BlockState.h"
#include "runtime/Format/Safetensors.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace ztc {
namespace {

const SafetensorsFile &golden() {
  static const auto *file = new SafetensorsFile(std::move(*SafetensorsFile::open(
      (std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "golden/block_states.safetensors")
          .string())));
  return *file;
}

template <typename T> std::vector<T> valuesOf(const std::string &name) {
  const SafetensorsTensor *tensor = golden().find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::vector<T> values(tensor ? tensor->bytes / sizeof(T) : 0);
  if (tensor)
    std::memcpy(values.data(), golden().data(*tensor).data(), tensor->bytes);
  return values;
}

TEST(BlockState, MapsAreThoseOfBitsandbytes) {
  for (const bool isSigned : {true, false}) {
    const std::vector<float> map = valuesOf<float>(isSigned ? "map" : "unsigned_map");
    ASSERT_EQ(map.size(), 256u);
    for (size_t code = 0; code < map.size(); ++code)
      EXPECT_EQ(stateMap(isSigned).values[code], map[code]) << isSigned << " " << code;
  }
}

TEST(BlockState, CodesAreThoseOfBitsandbytes) {
  for (const bool isSigned : {true, false}) {
    std::vector<float> values = valuesOf<float>("values");
    for (float &value : values)
      value = isSigned ? value : std::fabs(value);
    const std::vector<uint8_t> codes = valuesOf<uint8_t>(isSigned ? "codes" : "unsigned_codes");
    ASSERT_EQ(codes.size(), values.size());
    std::array<std::byte, kStateBlockBytes> record;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % kStateBlock == 0)
        encodeStateBlock(std::span(values).subspan(i, kStateBlock), isSigned, record.data());
      ASSERT_EQ(uint8_t(record[i % kStateBlock]), codes[i]) << isSigned << " " << i << ": " << values[i];
    }
  }
}

TEST(BlockState, ANumberIsAtMostHalfAStepOff) {
  const std::vector<float> values = valuesOf<float>("values");
  std::vector<float> rounded = values;
  roundThroughBlocks(rounded, /*isSigned=*/true);
  const DynamicMap &map = stateMap(true);
  for (size_t begin = 0; begin < values.size(); begin += kStateBlock) {
    const float magnitude = largestMagnitude(std::span(values).subspan(begin, kStateBlock));
    for (size_t i = begin; i < begin + kStateBlock; ++i) {
      float nearest = std::numeric_limits<float>::infinity();
      for (const float point : map.values)
        nearest = std::min(nearest, std::fabs(point * magnitude - values[i]));
      ASSERT_LE(std::fabs(rounded[i] - values[i]), nearest + 1e-6f * magnitude) << i;
    }
  }
}

TEST(BlockState, WhatIsNoNumberOrNothingHasACode) {
  std::array<std::byte, kStateBlockBytes> record;
  std::vector<float> values(kStateBlock, 0.0f);
  encodeStateBlock(values, /*isSigned=*/true, record.data());
  decodeStateBlock(record.data(), /*isSigned=*/true, values);
  for (const float value : values)
    EXPECT_EQ(value, 0.0f);
  const float tiny = std::numeric_limits<float>::denorm_min(), nan = std::numeric_limits<float>::quiet_NaN();
  values[3] = tiny;
  encodeStateBlock(values, /*isSigned=*/false, record.data());
  EXPECT_TRUE(std::isfinite(inverseMagnitude(tiny)));
  values[3] = nan;
  EXPECT_TRUE(std::isnan(largestMagnitude(values)));
  EXPECT_EQ(stateMap(true).code(nan), 0);
  EXPECT_EQ(stateMap(false).code(-1.0f), 0);
  EXPECT_EQ(stateMap(false).code(2.0f), 255);
}

} // namespace
} // namespace ztc
