// Programs as CUDA graphs, on the stand-ins of tests/standin.
#include "runtime/Device/cuda/CudaLibraries.h"
#include "tests/unit/runtime/CudaRunner.h"
#include <gmock/gmock.h>

namespace ztc::test {
namespace {

using ::testing::HasSubstr;

/// a -> b -> c -> a over two streams, where the first micro-step overwrites b and others add to it.
class TwoStreams : public CudaRunner {
public:
  explicit TwoStreams(CudaDeviceOptions options) : CudaRunner(std::move(options)) {
    a = slot(randomFloats(kCount, 1));
    b = scratch(kCount * 4, false);
    const uint32_t c = scratch(kCount * 4, false);
    const uint32_t overwrites = addKernel("twice_plus_one", 32), adds = addKernel("twice_plus_one_add", 32);
    plan::Launch *first = launch("b", {a, b}, overwrites, kCount / 500, 500);
    first->set_kernel_add(adds);
    first->set_accumulate(plan::ADD_UNLESS_FIRST);
    order(0, 1, 0);
    plan::Step *copy = step("c = b", {b, c});
    copy->set_stream(1);
    copy->mutable_copy();
    order(1, 0, 1);
    launch("a = 2c + 1", {c, a}, overwrites, kCount / 500, 500);
  }
  static constexpr size_t kCount = 5000;
  uint32_t a = 0, b = 0;
};

std::vector<float> train(CudaDeviceOptions options) {
  TwoStreams runner(std::move(options));
  EXPECT_TRUE(runner.prepare(1).isOk());
  for (int step = 0; step < 4; ++step)
    for (uint32_t microstep = 0; microstep < 3; ++microstep) {
      const Status status = runner.run(microstep);
      EXPECT_TRUE(status.isOk()) << status.message();
    }
  return runner.read(runner.a, TwoStreams::kCount);
}

TEST(CudaGraphs, GiveTheBitsOfTheStepsOneByOne) {
  const uint64_t before = calls("cuGraphLaunch");
  const std::vector<float> want = train({.libraries = {}, .graphs = false});
  EXPECT_EQ(calls("cuGraphLaunch"), before);
  EXPECT_TRUE(sameBits(train({}), want));
  // Two shapes: the first micro-step, and the others. The first execution of each is without a graph.
  EXPECT_EQ(calls("cuGraphLaunch"), before + 3 + 7);
  EXPECT_TRUE(sameBits(train({.libraries = {}, .synchronous = true}), want));
  EXPECT_TRUE(sameBits(train({.libraries = {}, .timed = true}), want));
  EXPECT_EQ(calls("cuGraphLaunch"), before + 3 + 7);
}

TEST(CudaGraphs, KeepThePrioritiesOfTheirStreams) {
  const uint64_t before = calls("graphs without priorities"), launches = calls("cuGraphLaunch");
  train({});
  EXPECT_GT(calls("cuGraphLaunch"), launches);
  EXPECT_EQ(calls("graphs without priorities"), before);
}

TEST(CudaGraphs, TheHostDoesNotWaitInsideAStep) {
  TwoStreams runner({});
  ASSERT_TRUE(runner.prepare(1).isOk());
  const std::vector<float> values = randomFloats(TwoStreams::kCount, 2);
  for (int step = 0; step < 5; ++step) {
    const uint64_t before = calls("waits");
    for (uint32_t microstep = 0; microstep < 8; ++microstep) {
      ASSERT_TRUE(runner.executor().writeSlot(runner.a, 0, values.data(), values.size() * 4).isOk());
      ASSERT_TRUE(runner.run(microstep).isOk());
    }
    EXPECT_EQ(calls("waits"), before) << step;
    runner.read(runner.b, 1);
    EXPECT_GT(calls("waits"), before);
  }
}

TEST(CudaGraphs, TakeTheArenaThatTheyAreGiven) {
  TwoStreams runner({});
  ASSERT_TRUE(runner.prepare(1).isOk());
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(runner.run().isOk());
  const std::vector<float> before = runner.read(runner.a, TwoStreams::kCount);
  auto moved = runner.device().memory().allocateArena(1 << 20);
  ASSERT_TRUE(moved.isOk());
  ASSERT_TRUE(runner.executor().initialize(**moved).isOk());
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(runner.run().isOk());
  EXPECT_TRUE(sameBits(runner.read(runner.a, TwoStreams::kCount), before));
  runner.release();
}

TEST(CudaGraphs, RanksCountWhatARecordedProgramSends) {
  constexpr uint64_t kShard = 64 * 100;
  onRanks(
      2,
      [&](CudaRunner &runner, uint32_t rank) {
        runner.plan().add_buckets()->set_elements(2 * kShard);
        const uint32_t full = runner.slot(std::vector<float>(2 * kShard, float(rank + 1)));
        collectiveStep(runner, "reduce_scatter all", {full, runner.scratch(1 << 16, false)},
                       plan::Collective::REDUCE_SCATTER);
      },
      [&](CudaRunner &runner, uint32_t rank, Communicator &communicator) {
        for (uint64_t i = 1; i <= 5; ++i) {
          const Status status = runner.run();
          ASSERT_TRUE(status.isOk()) << status.message();
          EXPECT_EQ(communicator.traffic().sentBytes(), i * kShard * 4);
        }
        // The own shard became the sum five times, the other's stayed: 3, 3 + own, ...
        EXPECT_EQ(runner.read(0, 2 * kShard)[rank * kShard], rank == 0 ? 11.0f : 7.0f);
      });
}

/// The stand-in driver refuses what the real one refuses in a capture.
class Captures : public testing::Test {
protected:
  void SetUp() override {
    auto loaded = CudaDriver::load(standIns());
    ASSERT_TRUE(loaded.isOk());
    driver = *loaded;
    auto device = standInDevice()(1); // leaves the context in this thread
    ASSERT_TRUE(device.isOk());
    for (cuda::Stream &stream : streams)
      ASSERT_EQ(driver->cuStreamCreateWithPriority(&stream, cuda::kStreamNonBlocking, 0), cuda::kSuccess);
    for (cuda::Event &event : events)
      ASSERT_EQ(driver->cuEventCreate(&event, cuda::kEventDisableTiming), cuda::kSuccess);
    ASSERT_EQ(driver->cuMemAlloc_v2(&memory, 1024), cuda::kSuccess);
    ASSERT_EQ(driver->cuEventRecord(events[1], streams[1]), cuda::kSuccess); // before any capture
    ASSERT_EQ(driver->cuStreamBeginCapture_v2(streams[0], cuda::kCaptureThreadLocal), cuda::kSuccess);
  }
  void TearDown() override {
    for (cuda::Stream stream : streams)
      driver->cuStreamDestroy_v2(stream);
    for (cuda::Event event : events)
      driver->cuEventDestroy_v2(event);
    driver->cuMemFree_v2(memory);
  }
  cuda::Result end() {
    cuda::Graph graph = nullptr;
    const cuda::Result result = driver->cuStreamEndCapture(streams[0], &graph);
    if (result == cuda::kSuccess)
      driver->cuGraphDestroy(graph);
    return result;
  }
  /// Makes the second stream part of the capture, with work of its own.
  void fork() {
    ASSERT_EQ(driver->cuEventRecord(events[0], streams[0]), cuda::kSuccess);
    ASSERT_EQ(driver->cuStreamWaitEvent(streams[1], events[0], 0), cuda::kSuccess);
    ASSERT_EQ(driver->cuMemsetD8Async(memory, 1, 16, streams[1]), cuda::kSuccess);
  }

  const CudaDriver *driver = nullptr;
  cuda::Stream streams[2] = {};
  cuda::Event events[2] = {};
  cuda::Address memory = 0;
};

TEST_F(Captures, JoinTheStreamsThatTheyForked) {
  fork();
  ASSERT_EQ(driver->cuEventRecord(events[1], streams[1]), cuda::kSuccess);
  ASSERT_EQ(driver->cuStreamWaitEvent(streams[0], events[1], 0), cuda::kSuccess);
  EXPECT_EQ(end(), cuda::kSuccess);
  EXPECT_EQ(driver->cuEventSynchronize(events[1]), cuda::kCapturedEvent);
}

TEST_F(Captures, RefuseWorkThatNobodyWaitsFor) {
  fork();
  EXPECT_EQ(end(), cuda::kCaptureUnjoined);
}

TEST_F(Captures, RefuseAWaitOfTheHost) {
  EXPECT_EQ(driver->cuStreamSynchronize(streams[0]), cuda::kCaptureUnsupported);
  EXPECT_EQ(driver->cuMemsetD8Async(memory, 1, 16, streams[0]), cuda::kCaptureInvalidated);
  EXPECT_EQ(end(), cuda::kCaptureInvalidated);
}

TEST_F(Captures, RefuseAnEventFromOutside) {
  EXPECT_EQ(driver->cuStreamWaitEvent(streams[0], events[1], 0), cuda::kCaptureIsolation);
  EXPECT_EQ(end(), cuda::kCaptureInvalidated);
}

TEST_F(Captures, RefuseAllocations) {
  cuda::Address more = 0;
  EXPECT_EQ(driver->cuMemAlloc_v2(&more, 16), cuda::kCaptureUnsupported);
  EXPECT_EQ(end(), cuda::kCaptureInvalidated);
}

} // namespace
} // namespace ztc::test
