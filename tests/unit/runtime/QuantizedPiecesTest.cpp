// Weights in fewer bits that a plan describes part by part. That their numbers are onnxruntime's is tested end to end
// (tests/e2e/quantized-graphs.py); here forms that no quantiser writes, and parts that do not fit.
#include "runtime/Format/QuantizedPieces.h"
#include "runtime/Format/SourceValidator.h"
#include <functional>
#include <gtest/gtest.h>

namespace ztc {
namespace {

using Codes = plan::WeightSource::Codes;

template <typename Number> std::span<const std::byte> bytesOf(const std::vector<Number> &values) {
  return std::as_bytes(std::span(values));
}

/// Three rows of five signed codes of 4 bits, in blocks of 2 by 3, with zeros.
Codes smallCodes() {
  Codes codes;
  codes.set_bits(4);
  codes.set_is_signed(true);
  codes.set_rows(3);
  codes.set_columns(5);
  codes.set_row_bytes(3);
  codes.set_block_rows(2);
  codes.set_block_columns(3);
  codes.mutable_scales()->set_path("scales");
  codes.mutable_scales()->set_type(plan::F32);
  codes.mutable_scales()->set_length(4 * sizeof(float));
  codes.mutable_zeros()->set_path("zeros");
  codes.mutable_zeros()->set_type(plan::U8);
  codes.mutable_zeros()->set_length(2);
  codes.set_zero_row_bits(8);
  return codes;
}

constexpr int64_t kShape[] = {3, 5};

TEST(QuantizedPieces, CodesAndZerosInTwosComplement) {
  const std::vector<uint8_t> data{0x21, 0xf8, 0x07, 0x43, 0x65, 0x0e, 0xdc, 0xba, 0x09}, zeros{0xf1, 0x20};
  const std::vector<float> scales{1, 10, 100, 1000};
  const Codes codes = smallCodes();
  ASSERT_TRUE(checkCodes(codes, kShape, data.size()).isOk());
  // A block of two rows has one row of scales and zeros: (1, -1), then (0, 2).
  const std::vector<float> expected{0, 1, -9, 0, 80, 2, 3, 4, 70, -10, -400, -300, -600, -7000, -9000};
  const QuantizedMatrix matrix = matrixOf(codes, "w", {bytesOf(data), bytesOf(scales), bytesOf(zeros)});
  std::vector<float> values(15);
  matrix.read(0, values.size(), values.data());
  EXPECT_EQ(values, expected);
  Codes turned = codes;
  turned.set_transposed(true);
  const QuantizedMatrix transposed = matrixOf(turned, "w", {bytesOf(data), bytesOf(scales), bytesOf(zeros)});
  EXPECT_EQ(transposed.shape, (std::vector<int64_t>{5, 3}));
  for (uint64_t i = 0; i < 15; ++i) {
    float value = 0;
    transposed.read(i, 1, &value);
    EXPECT_EQ(value, expected[i % 3 * 5 + i / 3]) << i;
  }
}

TEST(QuantizedPieces, WhatDoesNotFitIsRefused) {
  const std::function<void(Codes &)> changes[] = {
      [](Codes &codes) { codes.set_rows(4); },
      [](Codes &codes) { codes.set_columns(0); },
      [](Codes &codes) { codes.set_columns(uint64_t(1) << 40); },
      [](Codes &codes) { codes.set_transposed(true); },
      [](Codes &codes) { codes.set_bits(5); },
      [](Codes &codes) { codes.set_bits(9); },
      [](Codes &codes) { codes.set_kind(Codes::E4M3); }, // of 4 bits
      [](Codes &codes) { codes.set_row_bytes(2); },
      [](Codes &codes) { codes.set_row_bytes(uint64_t(1) << 62); },
      [](Codes &codes) { codes.set_block_rows(0); },
      [](Codes &codes) { codes.set_block_columns(2); }, // three blocks a row
      [](Codes &codes) { codes.mutable_scales()->set_type(plan::F64); },
      [](Codes &codes) { codes.mutable_scales()->set_length(15); },
      [](Codes &codes) { codes.mutable_zeros()->set_length(1); },
      [](Codes &codes) { codes.mutable_zeros()->set_type(plan::F32); },
      [](Codes &codes) { codes.set_zero_row_bits(7); },
      [](Codes &codes) { codes.set_zero_row_bits(uint64_t(1) << 61); },
  };
  ASSERT_TRUE(checkCodes(smallCodes(), kShape, 9).isOk());
  EXPECT_FALSE(checkCodes(smallCodes(), kShape, 10).isOk());
  EXPECT_FALSE(checkCodes(smallCodes(), std::vector<int64_t>{15}, 9).isOk());
  for (size_t i = 0; i < std::size(changes); ++i) {
    Codes codes = smallCodes();
    changes[i](codes);
    EXPECT_FALSE(checkCodes(codes, kShape, 9).isOk()) << "change " << i;
  }
}

TEST(QuantizedPieces, APlanNamesTheFilesOfAllParts) {
  plan::Parameter parameter;
  parameter.add_shape(3);
  parameter.add_shape(5);
  plan::WeightSource &source = *parameter.mutable_source();
  source.set_path("codes");
  source.set_length(9);
  source.set_type(plan::U8);
  source.set_dequantized(true);
  *source.mutable_codes() = smallCodes();
  ASSERT_TRUE(checkSource(parameter, 15, "parameter 0").isOk()) << checkSource(parameter, 15, "").message();
  source.mutable_codes()->mutable_zeros()->clear_path();
  EXPECT_FALSE(checkSource(parameter, 15, "parameter 0").isOk());
  *source.mutable_codes() = smallCodes();
  source.mutable_codes()->mutable_scales()->set_offset(~uint64_t(0));
  EXPECT_FALSE(checkSource(parameter, 15, "parameter 0").isOk());
  // A table may be in the plan itself, whole.
  *source.mutable_codes() = smallCodes();
  source.mutable_codes()->mutable_zeros()->clear_path();
  source.mutable_codes()->mutable_zeros()->set_data("\x01\x02", 2);
  EXPECT_TRUE(checkSource(parameter, 15, "parameter 0").isOk()) << checkSource(parameter, 15, "").message();
  source.mutable_codes()->mutable_zeros()->set_data("\x01", 1);
  EXPECT_FALSE(checkSource(parameter, 15, "parameter 0").isOk());
  *source.mutable_codes() = smallCodes();
  source.set_dequantized(false);
  EXPECT_FALSE(checkSource(parameter, 15, "parameter 0").isOk());
}

} // namespace
} // namespace ztc
