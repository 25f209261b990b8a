// Optimizer states in 8 bits against bitsandbytes (tests/golden/block_states.safetensors, made by block_states.py
// there).
#include "runtime/Format/BlockState.h"
#include "Scratch.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Safetensors.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
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

/// The small plan with its states in blocks.
plan::Plan blockPlan() {
  plan::Plan plan = test::smallPlan();
  plan::Bucket &bucket = *plan.mutable_buckets(0);
  bucket.set_elements(517);
  bucket.set_quantum(kStateBlock);
  for (int parameter = 0; parameter < 3; ++parameter)
    plan.mutable_parameters(parameter)->set_offset(uint64_t(parameter) * kStateBlock);
  for (const uint32_t slot : {bucket.parameter_slot(), bucket.gradient_slot()})
    plan.mutable_slots(int(slot))->mutable_size()->set_elements(768);
  for (int state = 0; state < 2; ++state) {
    plan::Slot &slot = *plan.mutable_slots(int(bucket.states(state).slot()));
    slot.set_type(state ? plan::UBLOCK8 : plan::BLOCK8);
    plan::SizeForm &size = *slot.mutable_size();
    size.set_kind(plan::SizeForm::SHARD);
    size.set_elements(bucket.elements());
    size.set_element_bytes(uint32_t(kStateBlockBytes));
    size.set_block_elements(uint32_t(kStateBlock));
    size.set_quantum(uint32_t(kStateBlock));
  }
  return plan;
}

TEST(BlockState, APlansRecordsAreWhole) {
  const plan::Plan plan = blockPlan();
  const Status status = validatePlan(plan);
  ASSERT_TRUE(status.isOk()) << status.message();
  plan::SizeForm size = plan.slots(int(plan.buckets(0).states(0).slot())).size();
  for (const uint64_t world : {1, 2, 3, 4}) {
    const uint64_t records = world == 1 ? 3 : world == 2 ? 2 : 1;
    EXPECT_EQ(sizeFormBytes(size, world, false, 1), records * kStateBlockBytes) << world;
    EXPECT_EQ(ownShardBytes(size, world), records * kStateBlockBytes) << world;
  }
  size.set_kind(plan::SizeForm::FULL);
  EXPECT_EQ(sizeFormBytes(size, 2, false, 1), 4 * kStateBlockBytes);
}

TEST(BlockState, APlanThatCutsARecordIsRefused) {
  const auto slot = [](plan::Plan &p) { return p.mutable_slots(int(p.buckets(0).states(0).slot())); };
  const struct {
    std::function<void(plan::Plan &)> spoil;
    const char *message;
  } cases[] = {
      {[=](plan::Plan &p) { slot(p)->set_type(plan::F32); }, "state 'exp_avg' of type f32 in records of 260 bytes"},
      {[=](plan::Plan &p) { slot(p)->mutable_size()->set_element_bytes(256); }, "in records of 256 bytes"},
      {[=](plan::Plan &p) { slot(p)->mutable_size()->set_block_elements(100); }, "blocks of 100 elements"},
      {[=](plan::Plan &p) { slot(p)->mutable_size()->set_quantum(64); }, "blocks of 256 elements in shards of"},
      {[=](plan::Plan &p) { slot(p)->mutable_size()->set_kind(plan::SizeForm::CONSTANT); }, "not a bucket's"},
      {[](plan::Plan &p) { p.mutable_buckets(0)->set_quantum(512); }, "shards in multiples of 512 elements"},
      {[](plan::Plan &p) { p.mutable_parameters(1)->set_offset(240); }, "begins at 240"},
  };
  for (const auto &[spoil, message] : cases) {
    plan::Plan plan = blockPlan();
    spoil(plan);
    const Status status = validatePlan(plan);
    EXPECT_FALSE(status.isOk()) << message;
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  }
}

} // namespace
} // namespace ztc
