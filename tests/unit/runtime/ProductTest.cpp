// Products in widened panels, however they are cut; conversions of whole arrays.
#include "runtime/Device/host/Product.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace ztc {
namespace {

/// Small whole numbers: sums of their products are exact in f32, in any order.
std::vector<float> wholeNumbers(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float &value : values)
    value = float(int(generator() % 17) - 8);
  return values;
}

std::vector<uint16_t> narrowed(const std::vector<float> &values, NarrowType type) {
  std::vector<uint16_t> bits(values.size());
  narrow(bits.data(), values.data(), values.size(), type);
  return bits;
}

TEST(ProductTest, PanelsOfAnySizeGiveTheSameBits) {
  constexpr uint64_t kM = 150, kN = 201, kK = 133;
  const std::vector<float> a = wholeNumbers(kM * kK, 1), b = wholeNumbers(kK * kN, 2);
  for (plan::DataType type : {plan::BF16, plan::F16})
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true}) {
        std::vector<float> sums(kM * kN);
        for (uint64_t i = 0; i < kM; ++i)
          for (uint64_t j = 0; j < kN; ++j)
            for (uint64_t l = 0; l < kK; ++l)
              sums[i * kN + j] += a[transposeA ? l * kM + i : i * kK + l] * b[transposeB ? j * kK + l : l * kN + j];
        const NarrowType narrowType = *narrowDataType(type);
        const std::vector<uint16_t> want = narrowed(sums, narrowType), narrowA = narrowed(a, narrowType),
                                    narrowB = narrowed(b, narrowType);
        MatmulProblem problem{.m = kM, .n = kN, .k = kK};
        problem.lda = transposeA ? kM : kK;
        problem.ldb = transposeB ? kK : kN;
        problem.ldc = kN;
        problem.transposeA = transposeA;
        problem.transposeB = transposeB;
        problem.typeA = problem.typeB = problem.typeC = type;
        ThreadPool pool(2);
        MatmulCache cache(2);
        for (WidenedTile tile : {WidenedTile{}, {64, 64, 512}, {100, 7, 133}, {1, 300, 50}, {33, 50, 1}}) {
          auto product = WidenedMatmul::prepare(cache, problem, {}, tile);
          ASSERT_TRUE(product.isOk()) << product.status().message();
          const uint64_t panelBytes = matmulScratchBytes(kM, kN, kK, tile);
          std::vector<std::byte> panels(2 * panelBytes);
          std::vector<uint16_t> got(want.size(), 0xffff);
          product->execute(pool, narrowA.data(), narrowB.data(), got.data(), panels.data(), panelBytes);
          EXPECT_EQ(got, want) << dataTypeName(type) << " " << transposeA << transposeB << " tile " << tile.rows
                               << " x " << tile.columns << " x " << tile.depth;
        }
      }
}

/// A product adds its summand once, to the finished f32 sum: with packed panels and without, for one row (generation
/// with a cache) as for many.
TEST(ProductTest, WhatIsAddedIsAddedOnceToTheFinishedSum) {
  constexpr uint64_t kRows = 130, kN = 70, kK = 1300;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  const auto random = [&](size_t count, NarrowType type) {
    std::vector<float> values(count);
    for (float &value : values)
      value = normal(generator);
    return narrowed(values, type);
  };
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    const NarrowType narrowType = *narrowDataType(type);
    const std::vector<uint16_t> a = random(kRows * kK, narrowType), b = random(kN * kK, narrowType),
                                added = random(kRows * kN, narrowType);
    ThreadPool pool(2);
    MatmulCache cache(2);
    std::vector<std::byte> panels(2 * matmulScratchBytes(kRows, kN, kK));
    const auto run = [&](auto prepare, uint64_t rows, bool sums, void *result) {
      MatmulProblem problem{.m = rows, .n = kN, .k = kK, .lda = kK, .ldb = kK, .ldc = kN, .transposeB = true};
      problem.typeA = problem.typeB = type;
      problem.typeC = sums ? plan::F32 : type;
      problem.add = !sums;
      auto product = prepare(cache, problem, ParallelMatmul::Batch());
      ASSERT_TRUE(product.isOk()) << product.status().message();
      product->execute(pool, a.data(), b.data(), result, panels.data(), panels.size() / 2);
    };
    const auto check = [&](auto prepare, const char *path) {
      std::vector<float> sums(kRows * kN);
      run(prepare, kRows, true, sums.data());
      addWidened(sums.data(), added.data(), added.size(), narrowType);
      const std::vector<uint16_t> want = narrowed(sums, narrowType);
      for (uint64_t rows : {1, 3, 13, 130}) {
        std::vector<uint16_t> got = added;
        run(prepare, rows, false, got.data());
        EXPECT_TRUE(std::equal(got.begin(), got.begin() + int64_t(rows * kN), want.begin()))
            << rows << " rows of " << dataTypeName(type) << " " << path;
      }
    };
    using Batch = ParallelMatmul::Batch;
    check([](MatmulCache &to, const MatmulProblem &problem,
             Batch batch) { return WidenedMatmul::prepare(to, problem, batch); },
          "in panels");
    check(
        [](MatmulCache &to, const MatmulProblem &problem, Batch batch) { return Product::prepare(to, problem, batch); },
        "as this processor multiplies them");
  }
}

TEST(ProductTest, ArraysConvertAsSingleValuesDo) {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = uint16_t(i);
  for (NarrowType type : {NarrowType::Bf16, NarrowType::F16}) {
    const auto widenOne = [&](uint16_t bits) { return type == NarrowType::Bf16 ? fromBf16(bits) : fromF16(bits); };
    const auto narrowOne = [&](float value) { return type == NarrowType::Bf16 ? toBf16(value) : toF16(value); };
    std::vector<float> wide(all.size()), values;
    widen(wide.data(), all.data(), all.size(), type);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_TRUE(std::isnan(wide[i]) ? std::isnan(widenOne(all[i])) : wide[i] == widenOne(all[i])) << i;
      // Each value, the middle to the next one, and both neighbours of that.
      const float next = widenOne(uint16_t(i + 1)), middle = float((double(wide[i]) + double(next)) / 2);
      for (float value : {wide[i], middle, std::nextafter(middle, INFINITY), std::nextafter(middle, -INFINITY)})
        values.push_back(value);
    }
    values.push_back(std::numeric_limits<float>::max());
    values.push_back(std::numeric_limits<float>::denorm_min());
    std::vector<uint16_t> bits(values.size()), want(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      want[i] = narrowOne(values[i]);
    narrow(bits.data(), values.data(), values.size(), type);
    EXPECT_EQ(bits, want);
    std::vector<float> place = values; // in place: the narrow ones begin where the wide ones did
    narrow(reinterpret_cast<uint16_t *>(place.data()), place.data(), place.size(), type);
    EXPECT_EQ(std::memcmp(place.data(), want.data(), want.size() * 2), 0);
    std::vector<float> sums(all.size(), 0.5f);
    addWidened(sums.data(), all.data(), 0x7c00, type);
    for (size_t i = 0; i < 0x7c00; ++i)
      ASSERT_EQ(sums[i], 0.5f + widenOne(all[i])) << i;
  }
}

} // namespace
} // namespace ztc
