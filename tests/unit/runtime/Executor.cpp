// The executor on a plan written by hand.
#include "runtime/Executor/Executor.h"
#include "runtime/Format/ScratchSizes.h"
#include "tests/conformance/ReferenceServiceKernels.h"
#include "tests/conformance/StepRunner.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

/// The largest allocation by new since it was last reset, in any thread.
static std::atomic<size_t> largestAllocation{0};

void *operator new(size_t bytes) {
  size_t largest = largestAllocation.load();
  while (bytes > largest && !largestAllocation.compare_exchange_weak(largest, bytes)) {
  }
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  std::abort();
}
void operator delete(void *memory) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}

namespace ztc::test {
namespace {

/// buffers {x, y}: y[i] = 2 x[i], in units of one element.
void doubled(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(buffers[1])[i] = 2 * static_cast<float *>(buffers[0])[i];
}

void doubledAdd(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(buffers[1])[i] += 2 * static_cast<float *>(buffers[0])[i];
}

/// Flat, buffers {x}: x[i] = global index, in blocks of 32 elements.
void globalIndex(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t i = begin * 32; i < std::min(end * 32, scalars[0]); ++i)
    static_cast<float *>(buffers[0])[i] = float(scalars[1] + i);
}

std::vector<std::pair<std::string, KernelFunction>> kernels() {
  return {{"doubled", doubled}, {"doubled_add", doubledAdd}, {"global_index", globalIndex}};
}

TEST(Executor, LaunchAccumulatesAfterTheFirstMicrostep) {
  StepRunner runner(kernels());
  uint32_t x = runner.slot(std::vector<float>(100, 1.5f)), y = runner.slot(std::vector<float>(100, NAN));
  plan::Launch &launch = *runner.step("double", {x, y})->mutable_launch();
  launch.set_kernel(runner.kernel("doubled"));
  launch.set_kernel_add(runner.kernel("doubled_add"));
  launch.set_accumulate(plan::ADD_UNLESS_FIRST);
  launch.set_extent(100);
  launch.set_grain(8);
  ASSERT_TRUE(runner.prepare(2).isOk());
  ASSERT_TRUE(runner.run(0).isOk());
  EXPECT_EQ(runner.read(y, 100), std::vector<float>(100, 3));
  ASSERT_TRUE(runner.run(1).isOk());
  EXPECT_EQ(runner.read(y, 100), std::vector<float>(100, 6));
  ASSERT_TRUE(runner.run(0).isOk());
  EXPECT_EQ(runner.read(y, 100), std::vector<float>(100, 3));
}

TEST(Executor, FlatLaunchLeavesTheBucketsPaddingAlone) {
  StepRunner runner(kernels());
  uint32_t x = runner.slot(std::vector<float>(128, -1));
  runner.plan().add_buckets()->set_elements(100);
  plan::Launch &launch = *runner.step("index", {x})->mutable_launch();
  launch.set_kernel(runner.kernel("global_index"));
  launch.set_flat(true);
  launch.set_flat_block(32);
  runner.runOnce(2);
  std::vector<float> got = runner.read(x, 128);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], i < 100 ? float(i) : -1);
}

TEST(Executor, PoisonsWhatNoStepMayReadAnyMore) {
  StepRunner runner(kernels());
  uint32_t x = runner.slot(std::vector<float>(64, 1)), y = runner.scratch(256, false), z = runner.scratch(256, false);
  for (uint32_t kept : {x, z})
    runner.plan().mutable_slots(int(kept))->set_persistent(true);
  for (auto [from, to] : {std::pair{x, y}, std::pair{y, z}}) {
    plan::Step *step = runner.step("double", {from, to});
    step->mutable_launch()->set_kernel(runner.kernel("doubled"));
    step->mutable_launch()->set_extent(64);
  }
  ASSERT_TRUE(runner.prepare(2).isOk());
  if (onGpu())
    GTEST_SKIP() << "slots are poisoned on hosts";
  ASSERT_TRUE(runner.executor().poisonDeadSlots().isOk());
  for (int i = 0; i < 2; ++i) {
    for (float dead : runner.read(y, 64)) // before the first step writes it, and after the last that reads it
      EXPECT_TRUE(std::isnan(dead));
    ASSERT_TRUE(runner.run().isOk());
    EXPECT_EQ(runner.read(z, 64), std::vector<float>(64, 4));
    EXPECT_EQ(runner.read(x, 64), std::vector<float>(64, 1));
  }
}

TEST(Executor, StepsRunInOrderAndAreCounted) {
  StepRunner runner(kernels());
  uint32_t x = runner.slot(std::vector<float>(64, 1)), y = runner.scratch(256, false), z = runner.scratch(256, false);
  for (auto [from, to] : {std::pair{x, y}, std::pair{y, z}}) {
    plan::Step *step = runner.step("double", {from, to});
    step->set_flops(64);
    step->mutable_launch()->set_kernel(runner.kernel("doubled"));
    step->mutable_launch()->set_extent(64);
  }
  runner.step("event", {})->mutable_record();
  ASSERT_TRUE(runner.prepare(2).isOk());
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(runner.run().isOk());
  EXPECT_EQ(runner.read(z, 64), std::vector<float>(64, 4));
  const ProgramStatistics &statistics = runner.executor().statistics().at(0);
  EXPECT_EQ(statistics.program, "microstep");
  ASSERT_EQ(statistics.steps.size(), 3u);
  EXPECT_EQ(statistics.steps[0].count, 3u);
  EXPECT_EQ(statistics.steps[0].flops, 64u);
  EXPECT_GT(statistics.steps[0].nanoseconds, 0u);
  EXPECT_EQ(runner.executor().progress(), 9u);
  runner.executor().resetStatistics();
  EXPECT_EQ(statistics.steps[0].count, 0u);
}

TEST(Executor, LaterRunsAllocateNothingLarge) {
  StepRunner runner({{"rows", crossEntropyRows<true>}});
  constexpr uint64_t tokens = 256, width = 128, vocabulary = 512, chunk = 128;
  std::vector<float> values = randomFloats(tokens * width, 1);
  uint32_t hidden = runner.slot(values), head = runner.slot(randomFloats(vocabulary * width, 2));
  uint32_t product = runner.scratch(4 * tokens * vocabulary, false);
  plan::Gemm &gemm = *runner.step("product", {hidden, head, product})->mutable_gemm();
  gemm.set_m(tokens);
  gemm.set_n(vocabulary);
  gemm.set_k(width);
  gemm.set_lda(width);
  gemm.set_ldb(width);
  gemm.set_ldc(vocabulary);
  gemm.set_transpose_b(true);
  gemm.set_alpha(1);
  gemm.set_type_a(plan::F32);
  gemm.set_type_c(plan::F32);
  uint32_t targets = runner.slot(std::vector<int32_t>(tokens, 3)), loss = runner.scratch(4, false);
  uint32_t scratch = runner.scratch(linearCrossEntropyScratchBytes(chunk, vocabulary), false);
  uint32_t scale = runner.slot(std::vector<float>{1}), dhidden = runner.scratch(4 * tokens * width, false);
  uint32_t dhead = runner.scratch(4 * vocabulary * width, false);
  plan::Step &lossStep = *runner.step("loss", {hidden, head, targets, loss, scratch, scale, dhidden, dhead});
  plan::LinearCrossEntropy &call = *lossStep.mutable_linear_cross_entropy();
  call.set_tokens(tokens);
  call.set_width(width);
  call.set_vocabulary(vocabulary);
  call.set_chunk(chunk);
  call.set_training(true);
  call.set_type(plan::F32);
  runner.runOnce(2);
  largestAllocation = 0;
  ASSERT_TRUE(runner.run().isOk());
  EXPECT_LT(largestAllocation.load(), 64u << 10);
}

TEST(Executor, ErrorsNameProgramAndStep) {
  StepRunner runner;
  runner.step("nameless deed", {});
  EXPECT_EQ(runner.prepare(1).message(), "program microstep, step 'nameless deed': the step is of no known kind");
  StepRunner other;
  other.step("copy", {other.scratch(64, false), 7})->mutable_copy()->set_bytes(64);
  EXPECT_EQ(other.prepare(1).message(), "program microstep, step 'copy': operand 1 names slot 7 of 1");
}

TEST(Executor, UnknownProgramAndWrongRanges) {
  StepRunner runner;
  uint32_t slot = runner.scratch(256, false);
  runner.step("fill", {slot})->mutable_fill();
  ASSERT_TRUE(runner.prepare(1).isOk());
  EXPECT_TRUE(runner.executor().hasProgram("microstep"));
  EXPECT_FALSE(runner.executor().hasProgram("update"));
  EXPECT_EQ(runner.executor().execute("update").code(), StatusCode::InvalidArgument);
  char bytes[8] = {};
  EXPECT_TRUE(runner.executor().writeSlot(slot, 248, bytes, 8).isOk());
  EXPECT_FALSE(runner.executor().writeSlot(slot, 249, bytes, 8).isOk());
  EXPECT_FALSE(runner.executor().readSlot(slot + 1, 0, bytes, 1).isOk());
}

} // namespace
} // namespace ztc::test
