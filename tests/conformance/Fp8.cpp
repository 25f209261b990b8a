// Products in fp8: codes and scales to the bit, products against the loops.
#include "runtime/Collective/Communicators.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/ScratchSizes.h"
#include "tests/conformance/NarrowValues.h"
#include <array>
#include <limits>
#include <memory>

namespace ztc::test {
namespace {

struct QuantizeCase {
  uint64_t rows, columns;
  plan::DataType from, to;
  bool byRows, byColumns;
  bool isGiven = false; ///< the absolute maxima of x's rows are an operand
};

/// Codes with one for all NaN: which one it is, and its sign, is a device's own.
std::vector<uint8_t> withOneNan(std::vector<uint8_t> codes, Fp8Format format) {
  for (uint8_t &code : codes)
    if (std::isnan(fromFp8(code, format)))
      code = 0x7f;
  return codes;
}

/// A scale as it is in memory, with one NaN for all: which one it is is a device's own.
std::vector<float> withOneNan(const Fp8Scale &scale) {
  std::vector<float> record{scale.inverse, scale.scale};
  for (float &number : record)
    if (std::isnan(number))
      number = std::numeric_limits<float>::quiet_NaN();
  return record;
}
/// That of a slot.
std::vector<float> readScale(StepRunner &runner, uint32_t slot) {
  const std::vector<float> record = runner.read(slot, 2);
  return withOneNan({.inverse = record[0], .scale = record[1]});
}

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
  std::vector<float> amax(c.rows);
  for (uint64_t row = 0; row < c.rows; ++row)
    for (uint64_t column = 0; column < c.columns; ++column)
      if (const float magnitude = std::abs(x[row * c.columns + column]); !(magnitude <= amax[row]))
        amax[row] = std::isnan(amax[row]) ? amax[row] : magnitude;
  if (c.isGiven) {
    plan::Operand &given = *step.add_operands();
    given.set_slot(typedSlot(runner, amax, c.from));
    given.set_bytes(c.rows * (c.from == plan::F32 ? 4 : 2));
  }
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
  EXPECT_TRUE(sameBits(readScale(runner, scaleSlot), withOneNan(scale))) << "of " << std::bit_cast<float>(largest);
  if (c.byRows)
    EXPECT_EQ(withOneNan(runner.read<uint8_t>(results.front(), x.size()), format), withOneNan(rows, format));
  if (c.byColumns)
    EXPECT_EQ(withOneNan(runner.read<uint8_t>(results.back(), x.size()), format), withOneNan(columns, format));
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
          for (bool isGiven : {false, true})
            expectCodes({rows, columns, from, to, byRows, byColumns, isGiven}, x, rows == 48 ? 1 : 3);
        }
}

TEST(Fp8Conformance, TensorsOfOneKindOfNumber) {
  constexpr float infinite = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  for (plan::DataType to : {plan::E4M3, plan::E5M2})
    for (float number : {0.0f, -0.0f, 1.0f, -0x1p120f, 0x1p-60f, infinite, none}) {
      std::vector<float> x(32 * 16, 0.5f);
      x[77] = number;
      expectCodes({32, 16, plan::BF16, to, true, true}, x, 2);
      expectCodes({32, 16, plan::BF16, to, true, true, /*isGiven=*/true}, x, 2);
      expectCodes({32, 16, plan::BF16, to, true, true}, std::vector<float>(x.size(), number), 2);
    }
}

/// Codes with a scale that is known, saturated where numbers are beyond it, and the absolute maximum: of the first
/// micro-step, and joined to that of the one before.
TEST(Fp8Conformance, CodesOfKnownScales) {
  constexpr float infinite = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  for (plan::DataType from : {plan::BF16, plan::F32})
    for (plan::DataType to : {plan::E4M3, plan::E5M2})
      for (auto [byRows, byColumns] : {std::pair(true, false), {false, true}, {true, true}})
        for (auto [rows, columns] : {std::pair<uint64_t, uint64_t>{16, 16}, {272, 1040}})
          for (float special : {0.0f, -0x1p40f, infinite, none})
            for (float before : {0.25f, 0x1p60f}) {
              std::vector<float> x = randomFloats(rows * columns, 3);
              for (size_t i = 0; i < x.size(); i += 3)
                x[i] *= 0x1p-9f;
              x[x.size() / 2] = special;
              roundTo(x, from);
              const Fp8Format format = fp8DataType(to).value();
              const Fp8Scale scale = fp8Scale(0.75f, format); // some numbers are beyond it
              std::vector<uint8_t> byRow(x.size()), byColumn(x.size());
              float largest = before;
              for (uint64_t row = 0; row < rows; ++row)
                for (uint64_t column = 0; column < columns; ++column) {
                  const float number = x[row * columns + column];
                  byRow[row * columns + column] = byColumn[column * rows + row] = toFp8(number * scale.scale, format);
                  largest = largerFp8Amax(std::abs(number), largest);
                }
              StepRunner runner;
              const uint32_t fromSlot = typedSlot(runner, x, from),
                             scaleSlot = runner.slot(std::vector<float>{scale.inverse, scale.scale}),
                             partials = runner.scratch(fp8Blocks(rows, columns) * 4, false),
                             amax = runner.slot(std::vector<float>{before});
              plan::Step &step = *runner.step("encode", {fromSlot, scaleSlot, partials});
              std::vector<uint32_t> results;
              for (bool wanted : {byRows, byColumns})
                if (wanted)
                  step.add_operands()->set_slot(results.emplace_back(runner.scratch(x.size(), false)));
              step.add_operands()->set_slot(amax);
              plan::QuantizeFp8 &call = *step.mutable_quantize_fp8();
              call.set_rows(rows);
              call.set_columns(columns);
              call.set_from(from);
              call.set_to(to);
              call.set_by_rows(byRows);
              call.set_by_columns(byColumns);
              call.set_known_scale(true);
              call.set_accumulate(plan::ADD);
              const std::string order = !byRows ? "columns" : byColumns ? "both" : "rows";
              runner.useGpuKernels(call, {std::string("gpu_encode_") + (format == Fp8Format::E4m3 ? "e4m3_" : "e5m2_") +
                                              order + gpuSuffix(from),
                                          "gpu_fp8_largest"});
              runner.runOnce(3);
              EXPECT_EQ(std::isnan(runner.read(amax, 1)[0]), std::isnan(largest));
              if (!std::isnan(largest))
                EXPECT_EQ(runner.read(amax, 1)[0], largest);
              if (byRows)
                EXPECT_EQ(withOneNan(runner.read<uint8_t>(results.front(), x.size()), format),
                          withOneNan(byRow, format));
              if (byColumns)
                EXPECT_EQ(withOneNan(runner.read<uint8_t>(results.back(), x.size()), format),
                          withOneNan(byColumn, format));
            }
}

/// Maxima and codes of what each of several ranks has of ranges of a bucket, against those of the whole ranges.
TEST(Fp8Conformance, ShardsOfABucket) {
  constexpr uint64_t kElements = 2048 + 48, kWorld = 3, kShard = 704; // of the last rank a part is padding
  const std::vector<std::array<int64_t, 2>> ranges{{0, 512}, {512, 1552}, {1552, 2048}, {2048, 2096}};
  for (plan::DataType from : {plan::BF16, plan::F32}) {
    std::vector<float> x = randomFloats(kElements, 5);
    for (uint64_t i = 512; i < 1552; ++i)
      x[i] *= 0x1p-7f;
    roundTo(x, from);
    std::vector<float> maxima;
    std::vector<uint8_t> codes(kWorld * kShard);
    for (auto [begin, end] : ranges) {
      float largest = 0;
      for (int64_t i = begin; i < end; ++i)
        largest = std::max(largest, std::abs(x[size_t(i)]));
      maxima.push_back(largest);
      for (int64_t i = begin; i < end; ++i)
        codes[size_t(i)] = toFp8(x[size_t(i)] * fp8Scale(largest, Fp8Format::E4m3).scale, Fp8Format::E4m3);
    }
    x.resize(kWorld * kShard, std::numeric_limits<float>::quiet_NaN());
    std::vector<std::unique_ptr<Communicator>> ranks = createThreadCommunicators(kWorld);
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      SCOPED_TRACE(testing::Message() << plan::DataType_Name(from) << " rank " << rank);
      StepRunner runner;
      const std::vector<float> own(x.begin() + rank * kShard, x.begin() + (rank + 1) * kShard);
      const uint32_t shard = typedSlot(runner, own, from), partials = runner.scratch(kFp8Partials * 4, false),
                     found = runner.scratch(4 * ranges.size(), false), given = runner.slot(maxima),
                     full = runner.slot(std::vector<uint8_t>(kWorld * kShard)), tile = runner.scratch(kFp8Tile, false);
      const auto asBucket = [&](uint32_t slot, plan::SizeForm::Kind kind, uint32_t bytes) {
        plan::SizeForm &size = *runner.plan().mutable_slots(int(slot))->mutable_size();
        size.Clear();
        size.set_kind(kind);
        size.set_elements(kElements);
        size.set_element_bytes(bytes);
      };
      asBucket(shard, plan::SizeForm::SHARD, from == plan::F32 ? 4 : 2);
      asBucket(full, plan::SizeForm::FULL, 1);
      plan::Step &amax = *runner.step("amax", {found, partials, shard});
      plan::Step &quantize = *runner.step("quantize", {given, tile, shard, full});
      quantize.mutable_operands(3)->set_own_shard(true);
      std::vector<uint32_t> scales;
      for (size_t i = 0; i < ranges.size(); ++i)
        quantize.add_operands()->set_slot(scales.emplace_back(runner.scratch(8, false)));
      for (plan::Step *step : {&amax, &quantize}) {
        for (auto [begin, end] : ranges)
          for (int64_t number : {int64_t(0), begin, end})
            step->mutable_shard_fp8()->add_ranges(number);
        step->mutable_shard_fp8()->set_from(from);
      }
      amax.mutable_shard_fp8()->set_to(plan::F32);
      quantize.mutable_shard_fp8()->set_to(plan::E4M3);
      runner.useGpuKernels(*amax.mutable_shard_fp8(), {"gpu_fp8_maxima" + gpuSuffix(from), "gpu_fp8_maxima"});
      runner.useGpuKernels(*quantize.mutable_shard_fp8(), {"gpu_quantize_e4m3_rows" + gpuSuffix(from)});
      ASSERT_TRUE(runner.prepare(2, ranks[rank].get()).isOk());
      ASSERT_TRUE(runner.run().isOk());
      std::vector<float> want;
      for (auto [begin, end] : ranges) {
        float largest = 0;
        for (int64_t i = std::max(begin, int64_t(rank * kShard)); i < std::min(end, int64_t((rank + 1) * kShard)); ++i)
          largest = std::max(largest, std::abs(x[size_t(i)]));
        want.push_back(largest);
      }
      EXPECT_TRUE(sameBits(runner.read(found, ranges.size()), want));
      for (size_t i = 0; i < ranges.size(); ++i) {
        const Fp8Scale scale = fp8Scale(maxima[i], Fp8Format::E4m3);
        EXPECT_TRUE(sameBits(readScale(runner, scales[i]), withOneNan(scale)));
      }
      std::vector<uint8_t> expected(kWorld * kShard);
      const uint64_t end = std::min(kElements, (rank + 1) * kShard);
      std::copy(codes.begin() + rank * kShard, codes.begin() + end, expected.begin() + rank * kShard);
      EXPECT_EQ(runner.read<uint8_t>(full, kWorld * kShard), expected) << "and nothing else is written";
      runner.release();
    }
  }
}

std::vector<uint8_t> someCodes(size_t count) {
  std::vector<uint8_t> codes(count);
  for (uint64_t i = 0; i < count; ++i)
    codes[i] = uint8_t(i * 7 + i / 251);
  return codes;
}

std::vector<uint8_t> transposed(const std::vector<uint8_t> &codes, uint64_t rows, uint64_t columns) {
  std::vector<uint8_t> result(codes.size());
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t column = 0; column < columns; ++column)
      result[column * rows + row] = codes[row * columns + column];
  return result;
}

TEST(Fp8Conformance, TransposedCodes) {
  for (auto [rows, columns] : {std::pair<uint64_t, uint64_t>{16, 16}, {48, 112}, {272, 1040}}) {
    const std::vector<uint8_t> codes = someCodes(rows * columns), want = transposed(codes, rows, columns);
    StepRunner runner;
    const uint32_t from = runner.slot(codes), to = runner.scratch(codes.size(), false);
    plan::TransposeCodes &call = *runner.step("transpose", {from, to})->mutable_transpose_codes();
    call.set_rows(rows);
    call.set_columns(columns);
    runner.useGpuKernels(call, {"gpu_transpose_codes"});
    runner.runOnce(3);
    EXPECT_EQ(runner.read<uint8_t>(to, want.size()), want);
  }
}

/// Transposed, with the largest of the absolute maxima of parts: of this micro-step alone, or of those before too.
TEST(Fp8Conformance, TransposedCodesAndTheirMaximum) {
  for (plan::DataType type : {plan::BF16, plan::F32})
    for (auto [rows, columns, parts] : {std::tuple<uint64_t, uint64_t, uint64_t>{16, 16, 16}, {272, 1040, 544}})
      for (plan::Accumulate accumulate : {plan::OVERWRITE, plan::ADD})
        for (float before : {0.5f, 1000.0f}) {
          const std::vector<uint8_t> codes = someCodes(rows * columns), want = transposed(codes, rows, columns);
          std::vector<float> maxima = randomFloats(parts, 4);
          for (float &maximum : maxima)
            maximum = std::abs(maximum);
          roundTo(maxima, type);
          float largest = accumulate == plan::ADD ? before : 0;
          for (float maximum : maxima)
            largest = std::max(largest, maximum);
          StepRunner runner;
          const uint32_t from = runner.slot(codes), to = runner.scratch(codes.size(), false),
                         given = typedSlot(runner, maxima, type), amax = runner.slot(std::vector<float>{before});
          plan::Step &step = *runner.step("note", {from, to, given, amax});
          step.mutable_operands(2)->set_bytes(parts * (type == plan::F32 ? 4 : 2));
          plan::TransposeCodes &call = *step.mutable_transpose_codes();
          call.set_rows(rows);
          call.set_columns(columns);
          call.set_maxima(type);
          call.set_accumulate(accumulate);
          runner.useGpuKernels(call, {"gpu_note_codes" + gpuSuffix(type)});
          runner.runOnce(3);
          EXPECT_EQ(runner.read<uint8_t>(to, want.size()), want);
          EXPECT_EQ(runner.read(amax, 1)[0], largest);
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
                 scaleA = runner.slot(std::vector<float>{0.375f, 1e30f}), // the inverse is what counts
      scaleB = runner.slot(std::vector<float>{0.0123f, 1e30f}), slotC = typedSlot(runner, before, c.typeC),
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
  // Hopper's tensor cores keep some 14 bits of sums of codes, and cuBLASLt adds up every 128 of them in f32: 2e-4 were
  // measured.
  const double sums = onRealGpu() ? 5e-4 : 3e-6;
  EXPECT_LT(relativeError(one, want), sums + roundingError(c.typeC));
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
