// What the cost model says of a GPU: tiles in waves, rows of attention, chunks of the loss.
#include "compiler/Analysis/GpuModels.h"
#include "compiler/Analysis/GpuSeconds.h"
#include "runtime/Format/CudnnAttention.h"
#include <gtest/gtest.h>

using namespace ztc;

namespace {

const MachineRates kH100 = ratesOf(*findGpuModel("H100-80GB"));
constexpr PlanShape kOneGpu{1, 1, 0};

double teraflops(const ProductShape &shape) {
  return 2.0 * double(shape.m * shape.n * shape.k * shape.batch) / 1e12 /
         productSeconds(kH100, shape, kH100.narrowProductFlops);
}

GpuSeconds secondsOf(const plan::Step &step, const MachineRates &rates = kH100, bool deterministic = true) {
  return gpuStepSeconds(plan::Plan(), step, /*bytes=*/0, rates, {.deterministic = deterministic});
}

plan::Step attention(uint64_t seq, uint64_t headDim, bool grad) {
  plan::Step step;
  plan::Attention &a = *step.mutable_attention();
  a.set_batch(1);
  a.set_seq(seq);
  a.set_heads(32);
  a.set_kv_heads(8);
  a.set_head_dim(headDim);
  a.set_causal(true);
  a.set_grad(grad);
  a.set_type(plan::BF16);
  step.set_flops(uint64_t((grad ? 5 : 2) * 32 * seq * seq * headDim));
  return step;
}

double teraflops(const plan::Step &step, bool deterministic = true) {
  return double(step.flops()) / 1e12 / secondsOf(step, kH100, deterministic).work;
}

} // namespace

// 630 to 750 TFLOP/s are what products of such models reached on an H200 at its power limit (tests/gpu/README.md); an
// H100 has less memory bandwidth for their stores.
TEST(GpuSeconds, ProductsOfBlocksReachWhatLibrariesReach) {
  EXPECT_NEAR(teraflops(ProductShape{8192, 16384, 2048}), 630, 20);
  EXPECT_NEAR(teraflops(ProductShape{8192, 4096, 14336}), 740, 30);
  EXPECT_NEAR(teraflops(ProductShape{8192, 8192, 8192}), 740, 30);
}

TEST(GpuSeconds, AWaveIsAsLongAsAWholeOne) {
  const ProductShape full{128 * 132, 256, 65536}, more{128 * 133, 256, 65536};
  const double seconds = productSeconds(kH100, full, kH100.narrowProductFlops);
  EXPECT_GT(productSeconds(kH100, more, kH100.narrowProductFlops), 1.05 * seconds);
}

// 16 tiles do not fill a GPU: K is split among multiprocessors.
TEST(GpuSeconds, AdaptersFillAGpuByParts) {
  EXPECT_GT(teraflops(ProductShape{1024, 512, 65536}), 500);
  const ProductShape one{2048, 2048, 65536};
  EXPECT_GT(teraflops(one), 600);
  EXPECT_LT(teraflops(ProductShape{1024, 64, 512}), 50);
}

TEST(GpuSeconds, SumsOverMicroStepsReadWhatTheyAddTo) {
  const ProductShape stored{4096, 4096, 8192, 1, 2, 4}, added{4096, 4096, 8192, 1, 2, 8};
  EXPECT_GT(productSeconds(kH100, added, kH100.narrowProductFlops),
            1.02 * productSeconds(kH100, stored, kH100.narrowProductFlops));
}

// The first of the micro-steps writes what the others add to.
TEST(GpuSeconds, OneMicroStepAddsToNothing) {
  plan::Step step;
  plan::Gemm &gemm = *step.mutable_gemm();
  gemm.set_m(4096);
  gemm.set_n(4096);
  gemm.set_k(8192);
  gemm.set_type_a(plan::BF16);
  gemm.set_type_c(plan::F32);
  const auto secondsOfMicroSteps = [&](plan::Accumulate accumulate, uint64_t microSteps) {
    gemm.set_accumulate(accumulate);
    return gpuStepSeconds(plan::Plan(), step, 0, kH100, {.microSteps = microSteps}).work;
  };
  const double written = secondsOfMicroSteps(plan::OVERWRITE, 8), added = secondsOfMicroSteps(plan::ADD, 1);
  EXPECT_LT(written, added);
  EXPECT_EQ(secondsOfMicroSteps(plan::ADD_UNLESS_FIRST, 1), written);
  EXPECT_NEAR(secondsOfMicroSteps(plan::ADD_UNLESS_FIRST, 8), (written + 7 * added) / 8, 1e-7);
}

TEST(GpuSeconds, FewerMultiprocessorsTakeLonger) {
  const ProductShape shape{8192, 8192, 8192};
  MachineRates half = kH100;
  half.multiprocessors /= 2;
  half.memoryBytes /= 2;
  EXPECT_NEAR(productSeconds(half, shape, kH100.narrowProductFlops / 2),
              2 * productSeconds(kH100, shape, kH100.narrowProductFlops), 1e-4);
}

namespace {

/// Experts of Qwen3-30B-A3B's sizes.
plan::Step groupedGemm(uint64_t rows, uint64_t groups, bool outer) {
  plan::Step step;
  plan::GroupedGemm &gemm = *step.mutable_grouped_gemm();
  gemm.set_rows(rows);
  gemm.set_groups(groups);
  gemm.set_n(768);
  gemm.set_k(2048);
  gemm.set_outer(outer);
  gemm.set_type_a(plan::BF16);
  gemm.set_type_c(plan::BF16);
  step.set_flops(2 * rows * 768 * 2048);
  return step;
}

} // namespace

TEST(GpuSeconds, ProductsOfGroupsReachTheirShareOfLargeOnes) {
  const double few = teraflops(groupedGemm(1 << 20, 8, false));
  EXPECT_NEAR(few / teraflops(ProductShape{1 << 20, 768, 2048}), kH100.groupedShare, 0.03);
  // 1024 rows a group: half of one of nine tiles is empty.
  EXPECT_NEAR(teraflops(groupedGemm(131072, 128, false)) / few, 16.0 / 17, 0.015);
  // Sums over 1024 rows in place of 2048 values of k: twice as many first loads and stores, 3.5 us beside 21.
  EXPECT_NEAR(teraflops(groupedGemm(131072, 128, true)) / few, 24.5 / 28, 0.015);
}

// Of 128 groups with eight rows each the matrices are read; the tiles are as many as of 64 rows.
TEST(GpuSeconds, SmallGroupsTakeAsLongAsTheirMatrices) {
  const double read = 128.0 * 768 * 2048 * 2 / kH100.memoryBytes;
  EXPECT_GT(secondsOf(groupedGemm(1024, 128, false)).work, read);
  EXPECT_LT(secondsOf(groupedGemm(1024, 128, false)).work, 1.5 * secondsOf(groupedGemm(8192, 128, false)).work);
}

// Positions follow one another: what more rows take nothing more of is multiprocessors without a block.
TEST(GpuSeconds, ScansTakeAsLongAsTheirRows) {
  const auto scan = [](uint64_t batch, uint64_t positions, uint64_t states, bool grad) {
    plan::Step step;
    plan::SelectiveScan &scan = *step.mutable_selective_scan();
    scan.set_batch(batch), scan.set_positions(positions), scan.set_channels(1536), scan.set_states(states);
    scan.set_grad(grad);
    return secondsOf(step).work;
  };
  EXPECT_NEAR(scan(4, 2048, 16, false), 0.5e-3, 0.2e-3); // 96 blocks
  EXPECT_NEAR(scan(4, 2048, 16, true) / scan(4, 2048, 16, false), 2.5, 0.2);
  EXPECT_DOUBLE_EQ(scan(1, 2048, 16, false), scan(5, 2048, 16, false));        // 24 and 120 blocks of 132
  EXPECT_NEAR(scan(11, 2048, 16, false) / scan(5, 2048, 16, false), 1.9, 0.1); // two blocks share schedulers
  EXPECT_DOUBLE_EQ(scan(4, 4096, 16, false), 2 * scan(4, 2048, 16, false));
  EXPECT_DOUBLE_EQ(scan(4, 2048, 13, false), scan(4, 2048, 16, false)); // a thread has four numbers of either
  plan::Step bound;
  bound.mutable_selective_scan()->set_channels(64), bound.mutable_selective_scan()->set_batch(1);
  EXPECT_DOUBLE_EQ(gpuStepSeconds(plan::Plan(), bound, 1e9, kH100).work, 1e9 / (kH100.memoryBytes * kH100.kernelShare));
}

TEST(GpuSeconds, SumsOfOuterProductsReadWhatTheyAddTo) {
  plan::Step step = groupedGemm(4096, 128, true);
  step.mutable_grouped_gemm()->set_type_c(plan::F32);
  const double written = secondsOf(step).work;
  step.mutable_grouped_gemm()->set_accumulate(plan::ADD);
  EXPECT_GT(secondsOf(step).work, 1.3 * written);
}

TEST(GpuSeconds, RowsByChoiceCostWhatTheyMove) {
  plan::Step step;
  step.mutable_combine()->set_rows(1);
  const double bytes = 1e9;
  EXPECT_DOUBLE_EQ(gpuStepSeconds(plan::Plan(), step, bytes, kH100).work,
                   bytes / (kH100.memoryBytes * kH100.kernelShare));
  for (uint32_t kernel : {0, 1, 2})
    step.mutable_route()->add_gpu_kernels(kernel);
  EXPECT_EQ(gpuStepSeconds(plan::Plan(), step, bytes, kH100).launches, 3u);
}

TEST(GpuSeconds, AttentionIsFasterInLongRowsAndHeads) {
  EXPECT_NEAR(teraflops(attention(2048, 64, false)), 319, 3); // both measured in steps on an H200
  EXPECT_NEAR(teraflops(attention(8192, 128, false)), 502, 5);
  EXPECT_NEAR(teraflops(attention(2048, 64, true)), 194, 5);
  EXPECT_NEAR(teraflops(attention(8192, 128, true)), 292, 5);
  EXPECT_NEAR(teraflops(attention(8192, 128, true), /*deterministic=*/false), 481, 5);
}

// A row of a window's length ends in two triangles, not one.
TEST(GpuSeconds, AWindowIsAsLongAsTwiceItsKeys) {
  plan::Step window = attention(8192, 64, false);
  window.mutable_attention()->set_window(1024);
  EXPECT_NEAR(teraflops(window), 319, 5);
  window = attention(8192, 64, true);
  window.mutable_attention()->set_window(1024);
  EXPECT_NEAR(teraflops(window, /*deterministic=*/false), 267, 5);
}

// By the same plan with more workspace: faster as a whole than in parts, of which each has a tail, and than in order.
TEST(GpuSeconds, GradientsWithScoresInMemoryAreFaster) {
  plan::Plan plan;
  plan::Step step = attention(8192, 128, true);
  for (int i = 0; i < 10; ++i)
    step.add_operands();
  plan.add_slots()->mutable_size()->set_element_bytes(4);
  const auto secondsWith = [&](uint64_t kvHeads, const MachineRates &rates) {
    plan.mutable_slots(0)->mutable_size()->set_gpu_elements(
        kvHeads ? cudnnScoresWorkspaceBytes(1, 8192, 4 * kvHeads, kvHeads, 128) / 4 : 0);
    return gpuStepSeconds(plan, step, 0, rates);
  };
  const double inOrder = secondsWith(0, kH100).work, whole = secondsWith(8, kH100).work,
               parts = secondsWith(4, kH100).work;
  EXPECT_NEAR(double(step.flops()) / 1e12 / whole, 374, 5); // measured in steps on an H200
  EXPECT_LT(whole, parts);
  EXPECT_LT(parts, inOrder);
  EXPECT_EQ(secondsWith(4, kH100).launches, 8u);
  const MachineRates a100 = ratesOf(*findGpuModel("A100-80GB"));
  EXPECT_EQ(secondsWith(8, a100).work, secondsWith(0, a100).work) << "the library has one way there";
}

// The library takes no capped scores.
TEST(GpuSeconds, OwnKernelsOfAttentionAreSlower) {
  plan::Step step = attention(8192, 128, true);
  step.mutable_attention()->set_softcap(50);
  EXPECT_NEAR(teraflops(step), 147, 5);
  EXPECT_EQ(secondsOf(step).launches, 3u);
  EXPECT_EQ(secondsOf(attention(8192, 128, false)).launches, 1u);
  EXPECT_EQ(secondsOf(attention(8192, 128, true)).launches, 4u);
}

TEST(GpuSeconds, ChunksOfTheLossAddToTheHeadsCotangent) {
  plan::Step step;
  plan::LinearCrossEntropy &loss = *step.mutable_linear_cross_entropy();
  loss.set_tokens(8192);
  loss.set_width(2048);
  loss.set_vocabulary(128256);
  loss.set_type(plan::BF16);
  loss.set_training(true);
  for (int i = 0; i < 9; ++i)
    step.add_operands();
  loss.set_gpu_chunk(8192);
  const GpuSeconds whole = secondsOf(step);
  EXPECT_EQ(whole.launches, 5u);
  EXPECT_NEAR(whole.work, 20e-3, 1e-3);
  // 132 rows of 256 KB do not stay in a cache of 40 MB: logits come from memory once more.
  MachineRates smaller = kH100;
  smaller.cacheBytes = 40e6;
  EXPECT_NEAR(secondsOf(step, smaller).work - whole.work, 8192 * 128256 * 2.0 / (kH100.kernelShare * kH100.memoryBytes),
              1e-6);
  loss.set_gpu_chunk(1024);
  const GpuSeconds parts = secondsOf(step);
  EXPECT_EQ(parts.launches, 33u);
  EXPECT_GT(parts.work, 1.1 * whole.work);
}

TEST(GpuSeconds, HostsCountFlopsAlone) {
  const MachineRates host = hostRates(4);
  EXPECT_EQ(host.multiprocessors, 0u);
  plan::Step step;
  step.mutable_gemm()->set_type_a(plan::F32);
  step.mutable_gemm()->set_type_c(plan::F32);
  step.mutable_gemm()->set_m(64);
  step.mutable_gemm()->set_n(64);
  step.mutable_gemm()->set_k(64);
  step.set_flops(2 * 64 * 64 * 64);
  const PlanShape shape{1, 1, 4};
  EXPECT_DOUBLE_EQ(stepSeconds(plan::Plan(), MemoryPlan(), shape, step, host),
                   workSeconds(host, Work::Product, double(step.flops()), 0));
  EXPECT_LT(stepSeconds(plan::Plan(), MemoryPlan(), kOneGpu, step, kH100), 10e-6);
  plan::Step grouped = groupedGemm(4096, 128, false);
  grouped.mutable_grouped_gemm()->set_type_a(plan::F32);
  EXPECT_DOUBLE_EQ(stepSeconds(plan::Plan(), MemoryPlan(), shape, grouped, host),
                   workSeconds(host, Work::Product, double(grouped.flops()) / host.groupedShare, 0));
}
