// Matrix products of any shape, orientation, stride and accumulation, against the three loops.
#include "runtime/Format/ScratchSizes.h"
#include "tests/conformance/NarrowValues.h"
#include <algorithm>
#include <array>
#include <cmath>

namespace ztc::test {
namespace {

struct GemmCase {
  uint64_t m, n, k;
  bool transposeA, transposeB;
  plan::Accumulate accumulate = plan::OVERWRITE;
  double alpha = 1;
  uint64_t batch = 1;
  uint64_t padding = 0; ///< elements after each row of A, B and C
  plan::DataType typeA = plan::F32, typeC = plan::F32;
  bool addsOperand = false; ///< what `before` holds is an operand of its own
  bool addsBias = false;    ///< a vector, to each row
  bool gelu = false;        ///< the result is GELU of the sum
};

/// Operands, and the result in double.
struct GemmReference {
  explicit GemmReference(const GemmCase &c, uint32_t microstep = 0);
  GemmCase c;
  uint32_t microstep;
  uint64_t rowsA, lda, rowsB, ldb, ldc;
  std::vector<float> a, b, before, bias;
  std::vector<double> want;
};

GemmReference::GemmReference(const GemmCase &given, uint32_t microstep) : c(given), microstep(microstep) {
  rowsA = c.transposeA ? c.k : c.m;
  lda = (c.transposeA ? c.m : c.k) + c.padding;
  rowsB = c.transposeB ? c.n : c.k;
  ldb = (c.transposeB ? c.k : c.n) + c.padding;
  ldc = c.n + c.padding;
  a = randomFloats(c.batch * rowsA * lda, 1);
  b = randomFloats(c.batch * rowsB * ldb, 2);
  before = randomFloats(c.batch * c.m * ldc, 3);
  roundTo(a, c.typeA);
  roundTo(b, c.typeA);
  roundTo(before, c.typeC);
  bias = randomFloats(c.addsBias ? c.n : 0, 5);
  roundTo(bias, c.typeC);
  want.assign(before.begin(), before.end());
  bool adds = c.addsOperand || c.accumulate == plan::ADD || (c.accumulate == plan::ADD_UNLESS_FIRST && microstep > 0);
  for (uint64_t item = 0; item < c.batch; ++item)
    for (uint64_t i = 0; i < c.m; ++i)
      for (uint64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (uint64_t l = 0; l < c.k; ++l)
          sum += double(a[item * rowsA * lda + (c.transposeA ? l * lda + i : i * lda + l)]) *
                 b[item * rowsB * ldb + (c.transposeB ? j * ldb + l : l * ldb + j)];
        double &to = want[item * c.m * ldc + i * ldc + j];
        to = c.alpha * sum + (adds ? to : 0) + (c.addsBias ? bias[j] : 0);
        if (c.gelu)
          to = 0.5 * to * (1 + std::tanh(0.7978845608028654 * (to + 0.044715 * to * to * to)));
      }
}

/// If a row length is not a multiple of 16 bytes, cuBLASLt rounds the sum before it adds a bias (13.1 on an H200).
/// ztc-fuse-biases creates no such product, so sizes are rounded up on a GPU.
GemmCase alignedOnGpu(GemmCase c) {
  if (!onRealGpu())
    return c;
  for (uint64_t *size : {&c.m, &c.n, &c.k, &c.padding})
    *size = (*size + 7) / 8 * 8;
  return c;
}

/// The result, and in `sums`, where that is not null, what GELU is made of.
std::vector<float> runGemm(const GemmReference &r, uint32_t threads, std::vector<float> *sums = nullptr) {
  const GemmCase &c = r.c;
  StepRunner runner;
  uint32_t slotA = typedSlot(runner, r.a, c.typeA), slotB = typedSlot(runner, r.b, c.typeA),
           slotC = typedSlot(runner, r.before, c.typeC);
  plan::Step &step = *runner.step("product", {slotA, slotB, slotC});
  if (c.typeA != plan::F32)
    step.add_operands()->set_slot(runner.scratch(matmulScratchBytes(c.m, c.n, c.k), true));
  plan::Gemm &gemm = *step.mutable_gemm();
  if (c.addsOperand) {
    step.add_operands()->set_slot(slotC);
    std::vector<float> start = randomFloats(r.before.size(), 4);
    for (uint64_t i = 0; i < start.size(); ++i)
      start[i] = i % r.ldc < c.n ? start[i] : r.before[i]; // what lies after a row stays
    slotC = typedSlot(runner, start, c.typeC);
    step.mutable_operands(2)->set_slot(slotC);
  }
  if (c.addsBias)
    step.add_operands()->set_slot(typedSlot(runner, r.bias, c.typeC));
  const uint32_t slotSums = sums ? typedSlot(runner, r.before, c.typeC) : 0;
  if (sums)
    step.add_operands()->set_slot(slotSums);
  gemm.set_bias(c.addsBias);
  gemm.set_gelu(c.gelu);
  gemm.set_m(c.m);
  gemm.set_n(c.n);
  gemm.set_k(c.k);
  gemm.set_lda(r.lda);
  gemm.set_ldb(r.ldb);
  gemm.set_ldc(r.ldc);
  gemm.set_transpose_a(c.transposeA);
  gemm.set_transpose_b(c.transposeB);
  gemm.set_batch(c.batch);
  gemm.set_stride_a(r.rowsA * r.lda);
  gemm.set_stride_b(r.rowsB * r.ldb);
  gemm.set_stride_c(c.m * r.ldc);
  gemm.set_alpha(c.alpha);
  gemm.set_accumulate(c.accumulate);
  gemm.set_type_a(c.typeA);
  gemm.set_type_c(c.typeC);
  Status status = runner.prepare(threads);
  EXPECT_TRUE(status.isOk()) << status.message();
  if (!status.isOk())
    return {};
  status = runner.run(r.microstep);
  EXPECT_TRUE(status.isOk()) << status.message();
  if (sums)
    *sums = readTyped(runner, slotSums, r.before.size(), c.typeC);
  return readTyped(runner, slotC, r.before.size(), c.typeC);
}

/// Compares with the reference, and two runs with the same threads bit by bit.
void expectGemm(const GemmCase &c, uint32_t microstep = 0) {
  SCOPED_TRACE(testing::Message() << c.m << "x" << c.n << "x" << c.k << " transposes " << c.transposeA << c.transposeB
                                  << " accumulate " << c.accumulate << " batch " << c.batch << " "
                                  << plan::DataType_Name(c.typeA) << " to " << plan::DataType_Name(c.typeC));
  const GemmReference reference(c, microstep);
  for (uint32_t threads : {1u, 2u, 3u}) {
    const std::vector<float> result = runGemm(reference, threads);
    EXPECT_LT(relativeError(result, reference.want), 3e-6 + roundingError(c.typeC)) << threads << " threads";
    EXPECT_TRUE(sameBits(result, runGemm(reference, threads))) << threads << " threads";
  }
}

TEST(GemmConformance, OneAndTwoThreadsGiveTheSameBits) {
  // Shapes of small models; odd ones; 3 and 8 threads share their pieces, too.
  for (auto [m, n, k] : {std::array<uint64_t, 3>{512, 256, 256},
                         {512, 688, 256},
                         {512, 128, 256},
                         {688, 256, 512},
                         {129, 333, 251},
                         {64, 1030, 48},
                         {1000, 40, 96}})
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true}) {
        const GemmReference c({m, n, k, transposeA, transposeB, plan::ADD});
        EXPECT_TRUE(sameBits(runGemm(c, 1), runGemm(c, 2))) << m << "x" << n << "x" << k << transposeA << transposeB;
        EXPECT_TRUE(sameBits(runGemm(c, 3), runGemm(c, 8))) << m << "x" << n << "x" << k;
      }
}

TEST(GemmConformance, AllOrientations) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (plan::Accumulate accumulate : {plan::OVERWRITE, plan::ADD})
        expectGemm({160, 192, 96, transposeA, transposeB, accumulate});
}

TEST(GemmConformance, OddSizes) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      expectGemm({129, 67, 251, transposeA, transposeB, plan::ADD, 0.37});
      expectGemm({67, 301, 33, transposeA, transposeB, plan::OVERWRITE, 1, 1, 5});
    }
}

TEST(GemmConformance, OneRowOneColumnOneTerm) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      expectGemm({1, 640, 512, transposeA, transposeB, plan::OVERWRITE});
      expectGemm({640, 1, 512, transposeA, transposeB, plan::ADD});
      expectGemm({640, 512, 1, transposeA, transposeB, plan::OVERWRITE});
      expectGemm({1, 1, 1, transposeA, transposeB, plan::ADD, 2});
    }
}

TEST(GemmConformance, Batches) {
  expectGemm({33, 40, 65, false, true, plan::OVERWRITE, 0.5, 6});
  expectGemm({130, 70, 65, false, false, plan::ADD, 1, 5, 3});
  expectGemm({200, 70, 65, true, false, plan::OVERWRITE, 1, 1});
}

TEST(GemmConformance, FirstMicrostepOverwrites) {
  expectGemm({64, 64, 64, true, false, plan::ADD_UNLESS_FIRST}, 0);
  expectGemm({64, 64, 64, true, false, plan::ADD_UNLESS_FIRST}, 1);
}

/// Narrow operands, results narrow (activations) or f32 (gradients of weights).
void expectNarrowGemm(GemmCase c) {
  for (plan::DataType type : {plan::BF16, plan::F16})
    for (plan::DataType result : {type, plan::F32}) {
      c.typeA = type;
      c.typeC = result;
      expectGemm(c);
    }
}

TEST(GemmConformance, NarrowTypes) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true}) {
      expectNarrowGemm({160, 192, 96, transposeA, transposeB, plan::OVERWRITE});
      expectNarrowGemm({129, 67, 251, transposeA, transposeB, plan::ADD, 0.37});
      expectNarrowGemm({67, 301, 33, transposeA, transposeB, plan::OVERWRITE, 1, 1, 5});
      expectNarrowGemm({1, 640, 129, transposeA, transposeB, plan::OVERWRITE});
      expectNarrowGemm({65, 1, 77, transposeA, transposeB, plan::ADD});
      expectNarrowGemm({70, 90, 1, transposeA, transposeB, plan::OVERWRITE});
    }
  expectNarrowGemm({33, 40, 65, false, true, plan::OVERWRITE, 0.5, 6});
  expectNarrowGemm({130, 70, 65, false, false, plan::ADD, 1, 5, 3});
}

TEST(GemmConformance, AnOperandIsAddedBeforeTheSumIsRounded) {
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    const auto expectAdded = [type](GemmCase c) {
      c.accumulate = plan::OVERWRITE;
      c.typeA = c.typeC = type;
      c.addsOperand = true;
      expectGemm(c);
    };
    for (bool transposeB : {false, true}) {
      expectAdded({.m = 160, .n = 192, .k = 96, .transposeA = false, .transposeB = transposeB});
      expectAdded({.m = 129, .n = 67, .k = 251, .transposeA = true, .transposeB = transposeB, .alpha = 0.37});
    }
    expectAdded({.m = 270, .n = 40, .k = 1100, .transposeA = false, .transposeB = true});
    expectAdded({.m = 33, .n = 40, .k = 65, .transposeA = false, .transposeB = true, .batch = 6});
  }
}

/// The same numbers added to what the result holds, in place: that sum is rounded once as well.
TEST(GemmConformance, AnAddedOperandHasTheBitsOfASumInPlace) {
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    GemmCase c{.m = 130,
               .n = 70,
               .k = 650,
               .transposeA = false,
               .transposeB = true,
               .accumulate = plan::ADD,
               .typeA = type,
               .typeC = type};
    const std::vector<float> inPlace = runGemm(GemmReference(c), 2);
    c.accumulate = plan::OVERWRITE;
    c.addsOperand = true;
    EXPECT_TRUE(sameBits(inPlace, runGemm(GemmReference(c), 2)));
  }
}

TEST(GemmConformance, ABiasIsAddedBeforeTheSumIsRounded) {
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    const auto expectBiased = [type](GemmCase c) {
      c.typeA = c.typeC = type;
      c.addsBias = true;
      expectGemm(alignedOnGpu(c));
    };
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true}) {
        // Rows of whole tiles and others; few rows, which have ways of their own; one column; k in several pieces.
        expectBiased({.m = 160, .n = 192, .k = 96, .transposeA = transposeA, .transposeB = transposeB});
        expectBiased({.m = 129, .n = 67, .k = 251, .transposeA = transposeA, .transposeB = transposeB, .alpha = 0.37});
        expectBiased({.m = 3, .n = 200, .k = 77, .transposeA = transposeA, .transposeB = transposeB});
        expectBiased({.m = 9, .n = 640, .k = 129, .transposeA = transposeA, .transposeB = transposeB});
        expectBiased({.m = 65, .n = 1, .k = 77, .transposeA = transposeA, .transposeB = transposeB, .padding = 3});
      }
    expectBiased({.m = 270, .n = 330, .k = 1100, .transposeA = false, .transposeB = true});
  }
}

/// The same numbers in each row of an operand that is added: the f32 sum, plus the number, is rounded once.
TEST(GemmConformance, ABiasHasTheBitsOfRowsThatAreAdded) {
  for (plan::DataType type : {plan::BF16, plan::F16})
    for (uint64_t m : {2, 10, 130}) {
      GemmCase c = alignedOnGpu(
          {.m = m, .n = 170, .k = 650, .transposeA = false, .transposeB = true, .typeA = type, .typeC = type});
      c.addsBias = true;
      const GemmReference biased(c);
      c.addsBias = false;
      c.addsOperand = true;
      GemmReference rows(c);
      for (uint64_t i = 0; i < rows.before.size(); ++i)
        rows.before[i] = biased.bias[i % c.n];
      EXPECT_TRUE(sameBits(runGemm(biased, 2), runGemm(rows, 2))) << m << " rows";
    }
}

TEST(GemmConformance, AMatrixAndABiasAreAddedBeforeTheSumIsRounded) {
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    const auto expectBoth = [type](GemmCase c) {
      c.typeA = c.typeC = type;
      c.addsOperand = c.addsBias = true;
      expectGemm(alignedOnGpu(c));
    };
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true}) {
        expectBoth({.m = 160, .n = 192, .k = 96, .transposeA = transposeA, .transposeB = transposeB});
        expectBoth({.m = 129, .n = 67, .k = 251, .transposeA = transposeA, .transposeB = transposeB, .alpha = 0.37});
        expectBoth({.m = 3, .n = 200, .k = 77, .transposeA = transposeA, .transposeB = transposeB});
        expectBoth({.m = 65, .n = 1, .k = 77, .transposeA = transposeA, .transposeB = transposeB, .padding = 3});
      }
    expectBoth({.m = 270, .n = 330, .k = 1100, .transposeA = false, .transposeB = true});
  }
}

/// 1 + 2^-24 is 1 in f32, and minus 1 nothing; with the bias first 2^-24 would stay.
TEST(GemmConformance, ABiasIsAddedAfterTheMatrix) {
  for (plan::DataType type : {plan::BF16, plan::F16})
    for (uint64_t m : {2, 10, 130}) {
      GemmReference r({.m = m, .n = 70, .k = 1, .transposeA = false, .transposeB = true, .typeA = type, .typeC = type});
      r.c.addsOperand = r.c.addsBias = true;
      std::ranges::fill(r.a, 1.0f);
      std::ranges::fill(r.b, 1.0f);
      std::ranges::fill(r.before, 0x1p-24f);
      r.bias.assign(r.c.n, -1.0f);
      EXPECT_EQ(runGemm(r, 2), std::vector<float>(m * r.c.n)) << m << " rows";
    }
}

/// A bias of zeros beside a matrix, and a matrix of zeros beside a bias.
TEST(GemmConformance, ZerosThatAreAddedChangeNoBit) {
  for (plan::DataType type : {plan::BF16, plan::F16})
    for (uint64_t m : {2, 10, 130}) {
      GemmCase c = alignedOnGpu(
          {.m = m, .n = 170, .k = 650, .transposeA = false, .transposeB = true, .typeA = type, .typeC = type});
      c.addsBias = true;
      const GemmReference biased(c);
      c.addsOperand = true;
      GemmReference both(c);
      std::ranges::fill(both.before, 0.0f);
      EXPECT_TRUE(sameBits(runGemm(biased, 2), runGemm(both, 2))) << m << " rows";
      c.addsBias = false;
      const GemmReference added(c);
      both.before = added.before;
      std::ranges::fill(both.bias, 0.0f);
      EXPECT_TRUE(sameBits(runGemm(added, 2), runGemm(both, 2))) << m << " rows";
    }
}

/// GELU element by element, far from zero too, and beside it the bits of the product that adds a bias alone.
void expectGelu(GemmCase c) {
  SCOPED_TRACE(testing::Message() << c.m << "x" << c.n << "x" << c.k << " transposes " << c.transposeA << c.transposeB
                                  << " " << plan::DataType_Name(c.typeA));
  c.addsBias = true;
  const std::vector<float> biased = runGemm(GemmReference(c), 2);
  c.gelu = true;
  const GemmReference reference(c);
  std::vector<float> sums;
  const std::vector<float> result = runGemm(reference, 2, &sums);
  EXPECT_TRUE(sameBits(sums, biased));
  EXPECT_TRUE(sameBits(result, runGemm(reference, 3)));
  ASSERT_EQ(result.size(), reference.want.size());
  const double ofSums = onRealGpu() ? 1e-4 : 2e-5; // tensor cores cut what they add off
  uint64_t wrong = 0;
  for (size_t i = 0; i < result.size(); ++i)
    wrong += std::abs(result[i] - reference.want[i]) > roundingError(c.typeC) * std::abs(reference.want[i]) + ofSums;
  EXPECT_EQ(wrong, 0u);
}

TEST(GemmConformance, GeluIsMadeOfTheSumBeforeItIsRounded) {
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    const auto expect = [type](GemmCase c) {
      c.typeA = c.typeC = type;
      expectGelu(alignedOnGpu(c));
    };
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true}) {
        expect({.m = 160, .n = 192, .k = 96, .transposeA = transposeA, .transposeB = transposeB});
        expect({.m = 129, .n = 72, .k = 251, .transposeA = transposeA, .transposeB = transposeB, .alpha = 0.37});
        expect({.m = 3, .n = 200, .k = 77, .transposeA = transposeA, .transposeB = transposeB});
        expect({.m = 9, .n = 640, .k = 129, .transposeA = transposeA, .transposeB = transposeB});
        expect({.m = 65, .n = 8, .k = 77, .transposeA = transposeA, .transposeB = transposeB, .padding = 8});
      }
    expect({.m = 270, .n = 328, .k = 1100, .transposeA = false, .transposeB = true});
  }
}

TEST(GemmConformance, NarrowTypesAcrossSeveralPanels) {
  expectNarrowGemm({260, 290, 600, false, true, plan::OVERWRITE});
  expectNarrowGemm({270, 40, 1100, true, false, plan::ADD, 1, 1, 7});
}

TEST(GemmConformance, SizesOfADamagedPlanAreRefused) {
  StepRunner runner;
  uint32_t slot = runner.slot(randomFloats(64, 1));
  plan::Gemm &gemm = *runner.step("product", {slot, slot, slot})->mutable_gemm();
  for (auto set : {&plan::Gemm::set_m, &plan::Gemm::set_n, &plan::Gemm::set_k, &plan::Gemm::set_lda,
                   &plan::Gemm::set_ldb, &plan::Gemm::set_ldc})
    (gemm.*set)(100);
  gemm.set_type_a(plan::F32);
  gemm.set_type_c(plan::F32);
  Status status = runner.prepare(1);
  EXPECT_EQ(status.code(), StatusCode::DataLoss);
  EXPECT_NE(status.message().find("step 'product': operand 0 has 256 bytes, 40000 needed"), std::string::npos)
      << status.message();
}

} // namespace
} // namespace ztc::test
