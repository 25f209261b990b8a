// Products of bf16 matrices by AVX512-BF16 and by AMX, each held against the chain that its header promises, bit by
// bit.
#include "runtime/Core/FloatTypes.h"
#include "runtime/Core/Gelu.h"
#include "runtime/Device/host/Matmul.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace ztc {
namespace {

/// A copy of values that ends where memory ends: who reads beyond them is stopped by the system.
class AtTheEnd {
public:
  explicit AtTheEnd(const std::vector<uint16_t> &values) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE)), bytes = values.size() * sizeof(uint16_t);
    const size_t room = (bytes + page - 1) / page * page;
    bytes_ = room + page;
    memory_ =
        static_cast<std::byte *>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED || mprotect(memory_ + room, page, PROT_NONE) != 0)
      std::abort();
    values_ = reinterpret_cast<uint16_t *>(memory_ + room - bytes);
    std::memcpy(values_, values.data(), bytes);
  }
  ~AtTheEnd() { munmap(memory_, bytes_); }
  AtTheEnd(const AtTheEnd &) = delete;
  AtTheEnd &operator=(const AtTheEnd &) = delete;
  const uint16_t *data() const { return values_; }

private:
  std::byte *memory_;
  size_t bytes_;
  uint16_t *values_;
};

/// A product with operands of its own, which end where their last row ends.
struct Operands {
  MatmulProblem problem;
  std::mt19937 random{1};
  std::vector<uint16_t> a, b;
  std::vector<float> before;

  Operands(uint64_t m, uint64_t n, uint64_t k, bool transposeA, bool transposeB, bool add, plan::DataType typeC) {
    problem.m = m;
    problem.n = n;
    problem.k = k;
    // Some rows of A lie so far apart that they share a set of the cache, and are copied.
    problem.lda = !transposeA && k == 1200 ? 2048 : (transposeA ? m : k) + 3;
    problem.ldb = (transposeB ? k : n) + 5;
    problem.ldc = n + 1;
    problem.transposeA = transposeA;
    problem.transposeB = transposeB;
    problem.add = add;
    problem.alpha = add ? 0.375f : 1;
    problem.typeA = problem.typeB = plan::BF16;
    problem.typeC = typeC;
    a = values(((transposeA ? k : m) - 1) * problem.lda + (transposeA ? m : k));
    b = values(((transposeB ? n : k) - 1) * problem.ldb + (transposeB ? k : n));
    for (uint64_t i = 0; i < m * problem.ldc; ++i)
      before.push_back(fromBf16(values(1)[0]));
  }

  std::vector<uint16_t> values(uint64_t count) {
    std::uniform_real_distribution<float> distribution(-1, 1);
    std::vector<uint16_t> result(count);
    for (uint16_t &x : result)
      x = toBf16(distribution(random));
    return result;
  }
  float elementA(uint64_t i, uint64_t l) const {
    return fromBf16(a[problem.transposeA ? l * problem.lda + i : i * problem.lda + l]);
  }
  float elementB(uint64_t l, uint64_t j) const {
    return fromBf16(b[problem.transposeB ? j * problem.ldb + l : l * problem.ldb + j]);
  }
  /// Element (i, j) of C, by the sum of its products.
  float finished(float sum, uint64_t i, uint64_t j) const {
    const volatile float scaled = problem.alpha * sum; // not one operation with the sum that follows
    const float value = problem.add ? before[i * problem.ldc + j] + scaled : float(scaled);
    return problem.typeC == plan::BF16 ? fromBf16(toBf16(value)) : value;
  }

  /// C in its own type.
  struct Result {
    plan::DataType type;
    std::vector<float> wide;
    std::vector<uint16_t> narrow;
    void *at(uint64_t element) {
      return type == plan::BF16 ? static_cast<void *>(narrow.data() + element) : wide.data() + element;
    }
    float operator[](uint64_t element) const { return type == plan::BF16 ? fromBf16(narrow[element]) : wide[element]; }
    bool operator==(const Result &other) const { return wide == other.wide && narrow == other.narrow; }
  };
  Result start() const {
    Result c{problem.typeC, {}, {}};
    for (float x : before) {
      c.wide.push_back(x);
      c.narrow.push_back(toBf16(x));
    }
    return c;
  }

  /// The tile of C at (row, column) by one way's kernels, with the bias of all columns where there is one.
  template <class Way>
  void run(Result &c, uint64_t row, uint64_t rows, uint64_t column, uint64_t columns,
           const uint16_t *bias = nullptr) const {
    run<Way>(ProductResult(c.at(row * problem.ldc + column), bias ? bias + column : nullptr), row, rows, column,
             columns);
  }
  template <class Way> void run(ProductResult c, uint64_t row, uint64_t rows, uint64_t column, uint64_t columns) const {
    MatmulProblem tile = problem;
    tile.m = rows;
    tile.n = columns;
    const typename Way::Plan plan(tile);
    const uint64_t bytes = Way::scratchBytes(plan);
    std::vector<std::byte> memory(bytes + 64);
    void *scratch = memory.data();
    size_t room = memory.size();
    std::align(64, bytes, scratch, room);
    const AtTheEnd left(a), right(b);
    Way::multiply(plan, left.data() + row * (problem.transposeA ? 1 : problem.lda),
                  right.data() + column * (problem.transposeB ? problem.ldb : 1), c, scratch);
  }
  template <class Way> Result run() const {
    Result c = start();
    run<Way>(c, 0, problem.m, 0, problem.n);
    return c;
  }
};

/// What Bf16Gemm.h says.
struct Avx512Bf16 {
  using Plan = Bf16GemmPlan;
  static constexpr Bf16Instructions kInstructions = Bf16Instructions::Avx512;
  static constexpr const char *kName = "AVX512-BF16";
  /// Elements of C right of a mask's diagonal that are computed with what is left of it, by row.
  static constexpr uint64_t kBeyondMask = 44;
  static bool isHere() { return hasBf16Gemm(); }
  static uint64_t scratchBytes(const Plan &plan) { return bf16GemmScratchBytes(plan); }
  static void multiply(const Plan &plan, const uint16_t *a, const uint16_t *b, ProductResult c, void *scratch) {
    bf16Gemm(plan, a, b, c, scratch);
  }
  static float sum(const Operands &of, uint64_t i, uint64_t j) {
    float sum = 0;
    for (uint64_t l = 0; l < of.problem.k; l += 2) {
      if (l + 1 < of.problem.k)
        sum = std::fma(of.elementA(i, l + 1), of.elementB(l + 1, j), sum);
      sum = std::fma(of.elementA(i, l), of.elementB(l, j), sum);
    }
    return sum;
  }
};

/// What AmxGemm.h says.
struct Amx {
  using Plan = AmxGemmPlan;
  static constexpr Bf16Instructions kInstructions = Bf16Instructions::Amx;
  static constexpr const char *kName = "AMX";
  static constexpr uint64_t kBeyondMask = 64;
  static bool isHere() { return hasAmxGemm(); }
  static uint64_t scratchBytes(const Plan &plan) { return amxGemmScratchBytes(plan); }
  static void multiply(const Plan &plan, const uint16_t *a, const uint16_t *b, ProductResult c, void *scratch) {
    amxGemm(plan, a, b, c, scratch);
  }
  static float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
  static float sum(const Operands &of, uint64_t i, uint64_t j) {
    float sum = 0;
    for (uint64_t step = 0; step < of.problem.k; step += 32) {
      float halves[2] = {0, 0}; // of even and of odd places
      for (uint64_t l = step; l < step + 32; ++l) {
        const bool isThere = l < of.problem.k;
        const float a = isThere ? flushed(of.elementA(i, l)) : 0, b = isThere ? flushed(of.elementB(l, j)) : 0;
        halves[l % 2] = flushed(std::fma(a, b, halves[l % 2]));
      }
      sum = flushed(sum + flushed(halves[0] + halves[1]));
    }
    return sum;
  }
};

template <class Way> class Bf16Gemm : public testing::Test {
protected:
  void SetUp() override {
    if (!Way::isHere())
      GTEST_SKIP() << "the kernels need " << Way::kName;
  }
};
struct WayNames {
  template <class Way> static std::string GetName(int) {
    return Way::kInstructions == Bf16Instructions::Amx ? "Amx" : "Avx512";
  }
};
using Ways = testing::Types<Avx512Bf16, Amx>;
TYPED_TEST_SUITE(Bf16Gemm, Ways, WayNames);

TYPED_TEST(Bf16Gemm, HasTheBitsOfTheChain) {
  const std::vector<std::array<uint64_t, 3>> sizes = {
      {1, 1, 1},     {2, 50, 77}, {11, 70, 100},  {33, 31, 95},   {48, 64, 96}, {17, 160, 64}, {64, 200, 520},
      {32, 32, 32},  {3, 35, 64}, {4, 100, 131},  {1, 130, 2100}, {12, 32, 8},  {7, 17, 9},    {13, 48, 385},
      {96, 300, 40}, {5, 33, 2},  {25, 80, 2100}, {30, 30, 1200}, {11, 16, 33}, {40, 40, 2047}};
  for (auto [m, n, k] : sizes)
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true})
        for (bool add : {false, true})
          for (plan::DataType typeC : {plan::F32, plan::BF16}) {
            const Operands product(m, n, k, transposeA, transposeB, add, typeC);
            const auto c = product.template run<TypeParam>();
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < m; ++i) {
              for (uint64_t j = 0; j < n; ++j)
                wrong += c[i * product.problem.ldc + j] != product.finished(TypeParam::sum(product, i, j), i, j);
              wrong += c[i * product.problem.ldc + n] != product.before[i * product.problem.ldc + n];
            }
            EXPECT_EQ(wrong, 0u) << m << "x" << n << "x" << k << " transposes " << transposeA << transposeB << " add "
                                 << add << " C " << plan::DataType_Name(typeC);
          }
}

TYPED_TEST(Bf16Gemm, ABiasHasTheBitsOfRowsThatAreAdded) {
  // Rows that read B as it lies, whole tiles and others, k in several pieces.
  const std::vector<std::array<uint64_t, 3>> sizes = {{1, 1, 1},      {2, 50, 77},    {11, 70, 100},
                                                      {4, 100, 131},  {33, 31, 95},   {48, 64, 96},
                                                      {64, 200, 520}, {25, 80, 2100}, {40, 40, 2047}};
  for (auto [m, n, k] : sizes)
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true}) {
        Operands product(m, n, k, transposeA, transposeB, /*add=*/true, plan::BF16);
        for (uint64_t i = 0; i < product.before.size(); ++i)
          product.before[i] = product.before[i % product.problem.ldc];
        const auto want = product.template run<TypeParam>();
        auto c = product.start();
        const auto bias = product.start();
        std::ranges::fill(c.narrow, uint16_t(0x7fc0)); // NaN: nothing of C is read
        product.problem.add = false;
        product.template run<TypeParam>(c, 0, m, 0, n, bias.narrow.data());
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < m; ++i)
          for (uint64_t j = 0; j < n; ++j)
            wrong += c.narrow[i * product.problem.ldc + j] != want.narrow[i * product.problem.ldc + j];
        EXPECT_EQ(wrong, 0u) << m << "x" << n << "x" << k << " transposes " << transposeA << transposeB;
      }
}

TYPED_TEST(Bf16Gemm, ABiasIsAddedToTheSumWithWhatWasThere) {
  for (auto [m, n, k] : std::vector<std::array<uint64_t, 3>>{{2, 50, 77}, {33, 31, 95}, {64, 200, 520}})
    for (bool transposeB : {false, true}) {
      const Operands product(m, n, k, /*transposeA=*/false, transposeB, /*add=*/true, plan::BF16);
      const std::vector<uint16_t> bias = Operands(1, n, 1, false, false, false, plan::BF16).values(n);
      Operands wide = product;
      wide.problem.typeC = plan::F32;
      auto c = product.start();
      product.template run<TypeParam>(c, 0, m, 0, n, bias.data());
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < m; ++i)
        for (uint64_t j = 0; j < n; ++j)
          wrong += c[i * product.problem.ldc + j] !=
                   fromBf16(toBf16(wide.finished(TypeParam::sum(product, i, j), i, j) + fromBf16(bias[j])));
      EXPECT_EQ(wrong, 0u) << m << "x" << n << "x" << k << " transposes B " << transposeB;
    }
}

TYPED_TEST(Bf16Gemm, GeluIsMadeOfTheSumThatIsKept) {
  for (auto [m, n, k] : std::vector<std::array<uint64_t, 3>>{{2, 50, 77}, {11, 70, 100}, {64, 200, 520}})
    for (bool transposeB : {false, true}) {
      const Operands product(m, n, k, /*transposeA=*/false, transposeB, /*add=*/false, plan::BF16);
      const std::vector<uint16_t> bias = Operands(1, n, 1, false, false, false, plan::BF16).values(n);
      auto biased = product.start(), c = product.start(), sums = product.start();
      product.template run<TypeParam>(biased, 0, m, 0, n, bias.data());
      ProductResult result(c.narrow.data(), bias.data());
      result.gelu = true;
      result.sums = sums.narrow.data();
      product.template run<TypeParam>(result, 0, m, 0, n);
      EXPECT_TRUE(sums == biased);
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < m; ++i)
        for (uint64_t j = 0; j < n; ++j) {
          const float sum = TypeParam::sum(product, i, j) + fromBf16(bias[j]), want = geluTanh(sum);
          wrong += std::abs(c[i * product.problem.ldc + j] - want) > 0x1p-8f * std::abs(want);
        }
      EXPECT_EQ(wrong, 0u) << m << "x" << n << "x" << k << " transposes B " << transposeB;
    }
}

TYPED_TEST(Bf16Gemm, DenormalsAreZeroAndNansStay) {
  Operands product(2, 4, 2, false, false, false, plan::F32);
  product.a = {0x3f80, 0x0001, 0, 0, 0, 0x3f80, 0x7fc0}; // 1, a denormal; 1, NaN
  product.b = {0x0001, 0x3f80, 0x4b80, 0x7f80, 0, 0, 0, 0, 0, 0x4b80, 0x4b80, 0, 0x3f80};
  const auto c = product.template run<TypeParam>();
  EXPECT_EQ(c[0], 0); // denormal times one, and denormal times 2^24
  EXPECT_EQ(c[1], 1);
  EXPECT_EQ(c[2], 0x1p24f);
  EXPECT_EQ(c[3], INFINITY);
  for (int column = 0; column < 4; ++column)
    EXPECT_TRUE(std::isnan(c[product.problem.ldc + uint64_t(column)]));
}

/// Numbers so small that products, sums and what they begin with are denormal now and then.
TEST(AmxGemm, SmallNumbersHaveTheBitsOfTheChain) {
  if (!Amx::isHere())
    GTEST_SKIP() << "the kernels need AMX";
  Operands product(40, 48, 77, false, true, false, plan::F32);
  std::uniform_int_distribution<uint32_t> bits(0, 0xffff);
  for (auto *values : {&product.a, &product.b})
    for (uint16_t &x : *values) {
      x = uint16_t((bits(product.random) & 0x83ff) | 0x1e00); // 2^-67 to 2^-60
      if (bits(product.random) % 16 == 0)
        x &= 0x807f; // denormal
    }
  const auto c = product.run<Amx>();
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < product.problem.m; ++i)
    for (uint64_t j = 0; j < product.problem.n; ++j)
      wrong +=
          std::bit_cast<uint32_t>(c[i * product.problem.ldc + j]) != std::bit_cast<uint32_t>(Amx::sum(product, i, j));
  EXPECT_EQ(wrong, 0u);
}

TYPED_TEST(Bf16Gemm, BitsDoNotDependOnTheTile) {
  for (plan::DataType typeC : {plan::F32, plan::BF16})
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true}) {
        const Operands product(131, 210, 777, transposeA, transposeB, true, typeC);
        const auto whole = product.template run<TypeParam>();
        auto pieces = product.start();
        for (auto [row, rows] : {std::array<uint64_t, 2>{0, 1}, {1, 49}, {50, 12}, {62, 69}})
          for (auto [column, columns] : {std::array<uint64_t, 2>{0, 64}, {64, 31}, {95, 115}})
            product.template run<TypeParam>(pieces, row, rows, column, columns);
        EXPECT_TRUE(whole == pieces) << "transposes " << transposeA << transposeB;
      }
}

TYPED_TEST(Bf16Gemm, WhatTheMaskSparesIsLeftOut) {
  for (auto [queries, diagonal] : {std::array<uint64_t, 2>{64, 0}, {37, 0}, {50, 77}, {700, 23}}) {
    const uint64_t keys = queries + diagonal;
    Operands scores(queries, keys, 24, false, true, false, plan::F32);
    const auto whole = scores.template run<TypeParam>();
    scores.problem.causal = Causal::Scores;
    scores.problem.diagonal = diagonal;
    const auto some = scores.template run<TypeParam>();
    uint64_t wrong = 0, untouched = 0;
    for (uint64_t i = 0; i < queries; ++i)
      for (uint64_t j = 0; j < keys; ++j) {
        const uint64_t at = i * scores.problem.ldc + j;
        if (j <= i + diagonal)
          wrong += some[at] != whole[at];
        else
          untouched += some[at] == scores.before[at];
      }
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(untouched + TypeParam::kBeyondMask * queries, queries * (queries - 1) / 2);
    for (bool transposed : {false, true}) {
      Operands product(transposed ? keys : queries, 24, transposed ? queries : keys, transposed, false, true,
                       plan::F32);
      for (uint64_t i = 0; i < queries; ++i)
        for (uint64_t j = i + diagonal + 1; j < keys; ++j)
          product.a[i * product.problem.lda + j] = 0;
      const auto all = product.template run<TypeParam>();
      product.problem.causal = transposed ? Causal::LeftTransposed : Causal::Left;
      product.problem.diagonal = diagonal;
      EXPECT_TRUE(product.template run<TypeParam>() == all)
          << queries << " queries, diagonal " << diagonal << ", transposed " << transposed;
    }
  }
}

TYPED_TEST(Bf16Gemm, BitsDoNotDependOnThreads) {
  // One block; several of columns; rows for fewer workers than there are; a row alone.
  const std::vector<std::array<uint64_t, 3>> sizes = {
      {131, 210, 100}, {75, 2100, 900}, {40, 400, 4100}, {20, 800, 64}, {1, 1500, 900}};
  for (auto [m, n, k] : sizes)
    for (bool transposeA : {false, true}) {
      const Operands product(m, n, k, transposeA, !transposeA, transposeA, transposeA ? plan::F32 : plan::BF16);
      const auto want = product.template run<TypeParam>();
      for (uint32_t threads : {1u, 2u, 3u, 7u}) {
        MatmulCache cache(threads, TypeParam::kInstructions);
        ThreadPool pool(threads);
        auto parallel = ParallelMatmul::prepare(cache, product.problem);
        ASSERT_TRUE(parallel.isOk()) << parallel.status().message();
        for (int repetition = 0; repetition < 2; ++repetition) {
          auto c = product.start();
          parallel->execute(pool, product.a.data(), product.b.data(), c.at(0));
          EXPECT_TRUE(want == c) << m << "x" << n << "x" << k << " transposes " << transposeA << " threads " << threads;
        }
      }
    }
}

TYPED_TEST(Bf16Gemm, EqualProblemsShareAProduct) {
  MatmulCache cache(1, TypeParam::kInstructions);
  MatmulProblem problem;
  problem.m = problem.n = problem.k = problem.lda = problem.ldb = problem.ldc = 32;
  auto first = cache.get(problem), second = cache.get(problem);
  problem.typeA = problem.typeB = plan::BF16;
  auto third = cache.get(problem);
  ASSERT_TRUE(first.isOk() && second.isOk() && third.isOk());
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *third);
}

} // namespace
} // namespace ztc
