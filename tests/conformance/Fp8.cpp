// Products in fp8: codes and scales to the bit, products against the loops.
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/ScratchSizes.h"
#include "tests/conformance/NarrowValues.h"
#include <limits>

namespace ztc::test {
namespace {

struct QuantizeCase {
  uint64_t rows, columns;
  plan::DataType from, to;
  bool byRows, byColumns;
};

/// Codes and scale of `x` (of numbers that `from` holds) by runtime/Core/Fp8.h, against the device's.
void expectCodes(const QuantizeCase &c, const std::vector<float> &x, uint32_t threads) {
  SCOPED_TRACE(testing::Message() << c.rows << "x" << c.columns << " " << plan::DataType_Name(c.from) << " to "
                                  << plan::DataType_Name(c.to) << " " << c.byRows << c.byColumns);
  const Fp8Format format = fp8DataType(c.to).value();
  uint32_t largest = 0;
  for (float value : x)
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  const Fp8Scale scale = fp8Scale(std::bit_cast<float>(largest), format);
  std::vector<uint8_t> rows(x.size()), columns(x.size());
  for (uint64_t row = 0; row < c.rows; ++row)
    for (uint64_t column = 0; column < c.columns; ++column)
      rows[row * c.columns + column] = columns[column * c.rows + row] =
          toFp8(x[row * c.columns + column] * scale.scale, format);
  StepRunner runner;
  const uint32_t from = typedSlot(runner, x, c.from), scaleSlot = runner.scratch(8, false),
                 partials = runner.scratch(kFp8Partials * 4, false);
  plan::Step &step = *runner.step("quantize", {from, scaleSlot, partials});
  std::vector<uint32_t> results;
  for (bool wanted : {c.byRows, c.byColumns})
    if (wanted)
      step.add_operands()->set_slot(results.emplace_back(runner.scratch(x.size(), false)));
  plan::QuantizeFp8 &call = *step.mutable_quantize_fp8();
  call.set_rows(c.rows);
  call.set_columns(c.columns);
  call.set_from(c.from);
  call.set_to(c.to);
  call.set_by_rows(c.byRows);
  call.set_by_columns(c.byColumns);
  const std::string order = !c.byRows ? "columns" : c.byColumns ? "both" : "rows";
  runner.useGpuKernels(call, {"gpu_fp8_maxima" + gpuSuffix(c.from),
                              std::string("gpu_quantize_") + (format == Fp8Format::E4m3 ? "e4m3_" : "e5m2_") + order +
                                  gpuSuffix(c.from)});
  runner.runOnce(threads);
  EXPECT_TRUE(sameBits(runner.read(scaleSlot, 2), std::vector<float>{scale.scale, scale.inverse}));
  if (c.byRows)
    EXPECT_EQ(runner.read<uint8_t>(results.front(), x.size()), rows);
  if (c.byColumns)
    EXPECT_EQ(runner.read<uint8_t>(results.back(), x.size()), columns);
}

TEST(Fp8Conformance, Codes) {
  for (plan::DataType from : {plan::BF16, plan::F32})
    for (plan::DataType to : {plan::E4M3, plan::E5M2})
      for (auto [byRows, byColumns] : {std::pair(true, false), {false, true}, {true, true}})
        for (auto [rows, columns] : {std::pair<uint64_t, uint64_t>{16, 16}, {48, 112}, {272, 1040}}) {
          std::vector<float> x = randomFloats(rows * columns, 3);
          for (size_t i = 0; i < x.size(); i += 3)
            x[i] *= 0x1p-9f; // numbers below the smallest normal code
          roundTo(x, from);
          expectCodes({rows, columns, from, to, byRows, byColumns}, x, rows == 48 ? 1 : 3);
        }
}

TEST(Fp8Conformance, TensorsOfOneKindOfNumber) {
  constexpr float infinite = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  for (plan::DataType to : {plan::E4M3, plan::E5M2})
    for (float number : {0.0f, -0.0f, 1.0f, -0x1p120f, 0x1p-60f, infinite, none}) {
      std::vector<float> x(32 * 16, 0.5f);
      x[77] = number;
      expectCodes({32, 16, plan::BF16, to, true, true}, x, 2);
      expectCodes({32, 16, plan::BF16, to, true, true}, std::vector<float>(x.size(), number), 2);
    }
}

struct ProductCase {
  uint64_t m, n, k;
  plan::DataType typeA, typeB, typeC;
  plan::Accumulate accumulate = plan::OVERWRITE;
};

std::vector<float> runProduct(const ProductCase &c, const std::vector<uint8_t> &a, const std::vector<uint8_t> &b,
                              const std::vector<float> &before, uint32_t threads) {
  StepRunner runner;
  const uint32_t slotA = runner.slot(a), slotB = runner.slot(b),
                 scaleA = runner.slot(std::vector<float>{1e30f, 0.375f}), // the inverse is what counts
      scaleB = runner.slot(std::vector<float>{1e30f, 0.0123f}), slotC = typedSlot(runner, before, c.typeC),
                 panels = runner.scratch(matmulScratchBytes(c.m, c.n, c.k), true);
  plan::ScaledGemm &gemm =
      *runner.step("product", {slotA, slotB, scaleA, scaleB, slotC, panels})->mutable_scaled_gemm();
  gemm.set_m(c.m);
  gemm.set_n(c.n);
  gemm.set_k(c.k);
  gemm.set_type_a(c.typeA);
  gemm.set_type_b(c.typeB);
  gemm.set_type_c(c.typeC);
  gemm.set_accumulate(c.accumulate);
  runner.runOnce(threads);
  return readTyped(runner, slotC, before.size(), c.typeC);
}

/// Codes of numbers up to some 4.
std::vector<uint8_t> randomCodes(size_t count, uint32_t seed, plan::DataType type) {
  std::vector<uint8_t> codes;
  for (float number : randomFloats(count, seed))
    codes.push_back(toFp8(number, fp8DataType(type).value()));
  return codes;
}

void expectProduct(const ProductCase &c) {
  SCOPED_TRACE(testing::Message() << c.m << "x" << c.n << "x" << c.k << " " << plan::DataType_Name(c.typeA) << " "
                                  << plan::DataType_Name(c.typeB) << " to " << plan::DataType_Name(c.typeC));
  const std::vector<uint8_t> a = randomCodes(c.m * c.k, 1, c.typeA), b = randomCodes(c.n * c.k, 2, c.typeB);
  std::vector<float> before = randomFloats(c.m * c.n, 3);
  roundTo(before, c.typeC);
  std::vector<double> want(before.size());
  const Fp8Format formatA = fp8DataType(c.typeA).value(), formatB = fp8DataType(c.typeB).value();
  for (uint64_t i = 0; i < c.m; ++i)
    for (uint64_t j = 0; j < c.n; ++j) {
      double sum = 0;
      for (uint64_t l = 0; l < c.k; ++l)
        sum += double(fromFp8(a[i * c.k + l], formatA)) * fromFp8(b[j * c.k + l], formatB);
      want[i * c.n + j] = sum * (0.375f * 0.0123f) + (c.accumulate == plan::ADD ? before[i * c.n + j] : 0);
    }
  const std::vector<float> one = runProduct(c, a, b, before, 1), three = runProduct(c, a, b, before, 3);
  EXPECT_LT(relativeError(one, want), 3e-6 + roundingError(c.typeC));
  EXPECT_TRUE(sameBits(one, three));
}

TEST(Fp8Conformance, Products) {
  for (auto [typeA, typeB] : {std::pair(plan::E4M3, plan::E4M3), {plan::E5M2, plan::E4M3}, {plan::E4M3, plan::E5M2}}) {
    expectProduct({16, 16, 16, typeA, typeB, plan::BF16});
    expectProduct({160, 288, 96, typeA, typeB, plan::BF16});
    expectProduct({272, 304, 1040, typeA, typeB, plan::F32}); // several tiles, and blocks of k
    expectProduct({48, 80, 1040, typeA, typeB, plan::F32, plan::ADD});
  }
}

TEST(Fp8Conformance, ADamagedPlanIsRefused) {
  StepRunner runner;
  const uint32_t slot = runner.slot(std::vector<uint8_t>(1024));
  plan::ScaledGemm &gemm = *runner.step("product", {slot, slot, slot, slot, slot, slot})->mutable_scaled_gemm();
  gemm.set_m(64);
  gemm.set_n(64);
  gemm.set_k(64);
  gemm.set_type_a(plan::E4M3);
  gemm.set_type_b(plan::E4M3);
  gemm.set_type_c(plan::F32);
  const Status status = runner.prepare(1);
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_NE(status.message().find("step 'product': operand 0 has 1024 bytes, 4096 needed"), std::string::npos)
      << status.message();
}

} // namespace
} // namespace ztc::test
