// Collectives and events on the host device: a plan by hand as ZeRO-3 makes it, on one to three ranks in threads.
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Executor/Executor.h"
#include "tests/conformance/CommunicatorFactories.h"
#include "tests/unit/runtime/Scratch.h"
#include <future>
#include <numeric>

namespace ztc::test::streams {
namespace {

constexpr uint64_t kElements = 1000; // no multiple of a shard
constexpr uint64_t kScratch = 256;

enum Slot : uint32_t { Parameter, Gathered, Gradient, Reduced, Scratch, Norm, NormScratch, Seed, Started };

// Flat kernels: scalars {length, global start}, one block.

/// buffers {gathered, seed, gradient}: gradient[i] = gathered[i] * seed, over the whole bucket.
void backward(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  const auto *gathered = static_cast<const float *>(buffers[0]);
  const float seed = *static_cast<const float *>(buffers[1]);
  for (int64_t i = 0; i < scalars[0]; ++i)
    static_cast<float *>(buffers[2])[i] = gathered[i] * seed;
}
/// buffers {from, to}: to = from, or to += from.
template <bool add> void accumulate(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  for (int64_t i = 0; i < scalars[0]; ++i) {
    float &to = static_cast<float *>(buffers[1])[i];
    to = static_cast<float *>(buffers[0])[i] + (add ? to : 0);
  }
}
/// buffers {gradient, norm}: norm = sum of squares.
void sumSquares(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  float sum = 0;
  for (int64_t i = 0; i < scalars[0]; ++i)
    sum += static_cast<float *>(buffers[0])[i] * static_cast<float *>(buffers[0])[i];
  *static_cast<float *>(buffers[1]) = sum;
}
/// buffers {gradient, norm, parameter}.
void descend(void *const *buffers, const int64_t *scalars, int64_t, int64_t) {
  const float scale = 1 / (1 + *static_cast<float *>(buffers[1]));
  for (int64_t i = 0; i < scalars[0]; ++i)
    static_cast<float *>(buffers[2])[i] -= scale * static_cast<float *>(buffers[0])[i];
}
/// buffers {pointer}: calls the std::function<void()> there.
void callBack(void *const *buffers, const int64_t *, int64_t, int64_t) {
  if (auto *function = *static_cast<std::function<void()> **>(buffers[0]))
    (*function)();
}

enum Kernel : uint32_t { Backward, Copy, Add, SumSquares, Descend, CallBack };
const std::vector<std::pair<std::string, KernelFunction>> kKernels = {
    {"backward", backward},      {"copy", accumulate<false>}, {"add", accumulate<true>},
    {"sum_squares", sumSquares}, {"descend", descend},        {"call_back", callBack}};

class PlanBuilder {
public:
  plan::Plan plan;

  PlanBuilder() {
    for (const auto &[name, function] : kKernels)
      plan.add_kernels()->set_name(name);
    plan.add_buckets()->set_elements(kElements);
    slot("parameter", plan::PARAMETERS, plan::SizeForm::SHARD, kElements);
    slot("gathered", plan::GATHERED, plan::SizeForm::FULL, kElements);
    slot("gradient", plan::GRADIENTS, plan::SizeForm::FULL, kElements);
    slot("reduced", plan::GRADIENTS, plan::SizeForm::SHARD, kElements);
    slot("scratch", plan::COMMUNICATION, plan::SizeForm::FULL, kScratch);
    slot("norm", plan::IO, plan::SizeForm::CONSTANT, 1);
    slot("norm scratch", plan::COMMUNICATION, plan::SizeForm::FULL, 64);
    slot("seed", plan::IO, plan::SizeForm::CONSTANT, 1);
    slot("started", plan::IO, plan::SizeForm::CONSTANT, 2);
  }

  void program(const char *name) { plan.add_programs()->set_name(name); }
  plan::Step &step(const std::string &name, uint32_t stream, std::initializer_list<uint32_t> slots = {}) {
    plan::Step &step = *plan.mutable_programs(plan.programs_size() - 1)->add_steps();
    step.set_name(name);
    step.set_stream(stream);
    for (uint32_t slot : slots)
      step.add_operands()->set_slot(slot);
    return step;
  }
  plan::Step &launch(const std::string &name, Kernel kernel, std::initializer_list<uint32_t> slots,
                     plan::Launch::FlatRange range = plan::Launch::OWN_SHARD) {
    plan::Step &made = step(name, 0, slots);
    made.mutable_launch()->set_kernel(kernel);
    made.mutable_launch()->set_flat(true);
    made.mutable_launch()->set_flat_block(1 << 20);
    made.mutable_launch()->set_flat_range(range);
    return made;
  }
  /// Record, Wait, Collective, Record: what a start becomes. The event of the end is returned.
  uint32_t start(plan::Collective::Kind kind, const std::string &name, std::initializer_list<uint32_t> slots) {
    const uint32_t begin = events_++, end = events_++;
    step("before " + name, 0).mutable_record()->set_event(begin);
    step("begin " + name, 1).mutable_wait()->set_event(begin);
    plan::Collective &collective = *step(name, 1, slots).mutable_collective();
    collective.set_kind(kind);
    collective.set_type(plan::F32);
    step("end " + name, 1).mutable_record()->set_event(end);
    return end;
  }
  void done(uint32_t event, const std::string &name) { step("wait " + name, 0).mutable_wait()->set_event(event); }

private:
  void slot(const char *name, plan::SlotClass slotClass, plan::SizeForm::Kind kind, uint64_t elements) {
    plan::Slot &slot = *plan.add_slots();
    slot.set_name(name);
    slot.set_slot_class(slotClass);
    slot.set_type(plan::F32);
    slot.set_persistent(true);
    slot.mutable_size()->set_kind(kind);
    slot.mutable_size()->set_elements(elements);
    slot.mutable_size()->set_element_bytes(4);
  }
  uint32_t events_ = 0;
};

plan::Plan zero3() {
  PlanBuilder b;
  b.program("microstep");
  const uint32_t gather = b.start(plan::Collective::ALL_GATHER, "all_gather block0", {Parameter, Gathered});
  plan::Step &meanwhile = b.step("meanwhile", 0, {Started});
  meanwhile.mutable_launch()->set_kernel(CallBack);
  meanwhile.mutable_launch()->set_extent(1);
  b.done(gather, "block0");
  b.launch("backward", Backward, {Gathered, Seed, Gradient}, plan::Launch::WHOLE);
  const uint32_t reduce = b.start(plan::Collective::REDUCE_SCATTER, "reduce_scatter block0", {Gradient, Scratch});
  b.done(reduce, "gradient of block0");
  plan::Step &add = b.launch("accumulate", Copy, {Gradient, Reduced});
  add.mutable_operands(0)->set_own_shard(true);
  add.mutable_launch()->set_kernel_add(Add);
  add.mutable_launch()->set_accumulate(plan::ADD_UNLESS_FIRST);
  b.program("update");
  b.launch("squares", SumSquares, {Reduced, Norm});
  b.done(b.start(plan::Collective::ALL_REDUCE, "all_reduce norm", {Norm, NormScratch}), "norm");
  b.launch("descend", Descend, {Reduced, Norm, Parameter});
  return b.plan;
}

/// zero3() with a gather that serves all micro-steps, or one by the update for the next step, or both.
plan::Plan withLives(bool kept, bool carried) {
  plan::Plan plan = zero3();
  plan::Slot &gathered = *plan.mutable_slots(Gathered);
  gathered.set_persistent(false);
  gathered.set_kept(kept);
  gathered.set_carried(carried);
  plan::Program &microstep = *plan.mutable_programs(0);
  for (plan::Step &step : *microstep.mutable_steps())
    if (step.name() == "before all_gather block0" || step.name() == "begin all_gather block0" ||
        step.name() == "all_gather block0" || step.name() == "end all_gather block0" || step.name() == "wait block0") {
      step.set_only_first_microstep(kept);
      step.set_unless_carried(carried);
    }
  if (!carried)
    return plan;
  plan::Program &update = *plan.mutable_programs(1);
  for (int i : {0, 1, 2, 3, 5}) {
    plan::Step &step = *update.add_steps();
    step = microstep.steps(i);
    step.set_name("early " + step.name());
    step.set_only_first_microstep(false);
    step.set_unless_carried(false);
    if (step.has_record())
      step.mutable_record()->set_event(step.record().event() + 100);
    if (step.has_wait())
      step.mutable_wait()->set_event(step.wait().event() + 100);
  }
  return plan;
}

/// As ZeRO-0 does it: the gradient stays full, is reduced in the last micro-step only, and gathered in place.
plan::Plan zero0() {
  PlanBuilder b;
  b.program("microstep");
  plan::Step &add = b.launch("accumulate", Copy, {Gathered, Gradient}, plan::Launch::WHOLE);
  add.mutable_launch()->set_kernel_add(Add);
  add.mutable_launch()->set_accumulate(plan::ADD_UNLESS_FIRST);
  const int first = b.plan.programs(0).steps_size();
  b.done(b.start(plan::Collective::REDUCE_SCATTER, "reduce_scatter block0", {Gradient, Scratch}), "gradient");
  for (int i = first; i < b.plan.programs(0).steps_size(); ++i)
    b.plan.mutable_programs(0)->mutable_steps(i)->set_only_last_microstep(true);
  b.program("update");
  b.done(b.start(plan::Collective::ALL_GATHER, "all_gather block0", {Gradient, Gradient}), "gathered");
  plan::Step &gather = *b.plan.mutable_programs(1)->mutable_steps(2);
  gather.mutable_operands(0)->set_own_shard(true);
  return b.plan;
}

/// One rank: device, executor and arena.
struct Rank {
  plan::Plan plan;
  PlanShape shape;
  MemoryPlan memory;
  ProgressBoard board;
  std::unique_ptr<Device> device;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Executor> executor;

  Status open(plan::Plan record, uint32_t rank, uint32_t world, uint32_t accumulate, Communicator *communicator) {
    plan = std::move(record);
    shape = {world, accumulate, 1};
    ZTC_ASSIGN_OR_RETURN(device, createHostDevice({1, kKernels}));
    ZTC_ASSIGN_OR_RETURN(memory, planMemory(plan, shape));
    ZTC_ASSIGN_OR_RETURN(executor, Executor::create(plan, memory, shape, rank, *device, communicator, &board));
    ZTC_ASSIGN_OR_RETURN(arena, device->memory().allocateArena(memory.arenaBytes));
    return executor->initialize(*arena);
  }
  float *floats(Slot slot) const { return reinterpret_cast<float *>(executor->slotAddress(slot)); }
  uint64_t shardElements() const { return (kElements + shape.world * 64 - 1) / (shape.world * 64) * 64; }
};

float startOf(uint64_t i) {
  return 0.001f * float(i) - 0.3f;
}

/// Two steps of two micro-steps; all parameters afterwards. `gathers`: how often each rank gathers the bucket.
std::vector<float> train(uint32_t world, const plan::Plan &plan = zero3(), uint64_t gathers = 4) {
  auto communicators = createThreadCommunicators(world);
  std::vector<float> result(world * 1024);
  onAllRanks(communicators, [&](uint32_t r, Communicator &communicator) {
    Rank rank;
    EXPECT_OK(rank.open(plan, r, world, 2, world == 1 ? nullptr : &communicator));
    const uint64_t shard = rank.shardElements();
    for (uint64_t i = 0; i < shard; ++i)
      rank.floats(Parameter)[i] = startOf(r * shard + i);
    for (int step = 0; step < 2; ++step) {
      for (uint32_t m = 0; m < 2; ++m) {
        *rank.floats(Seed) = float(1 + r + m) / float(world); // another one on each rank
        EXPECT_OK(rank.executor->execute("microstep", m));
      }
      EXPECT_OK(rank.executor->execute("update"));
    }
    std::copy_n(rank.floats(Parameter), shard, result.data() + r * shard);
    const uint64_t sent = (world - 1) * shard * 4;
    EXPECT_EQ(communicator.traffic().allGather, world == 1 ? 0 : gathers * sent);
    EXPECT_EQ(communicator.traffic().reduceScatter, world == 1 ? 0 : 4 * sent);
  });
  result.resize(kElements);
  return result;
}

/// The same in plain loops.
std::vector<float> reference(uint32_t world) {
  const uint64_t shard = (kElements + world * 64 - 1) / (world * 64) * 64;
  std::vector<float> parameter(kElements);
  for (uint64_t i = 0; i < kElements; ++i)
    parameter[i] = startOf(i);
  for (int step = 0; step < 2; ++step) {
    std::vector<float> gradient(kElements);
    for (uint32_t m = 0; m < 2; ++m)
      for (uint64_t i = 0; i < kElements; ++i) {
        float sum = parameter[i] * (float(1 + m) / float(world));
        for (uint32_t r = 1; r < world; ++r)
          sum += parameter[i] * (float(1 + r + m) / float(world));
        gradient[i] = sum + (m ? gradient[i] : 0);
      }
    float norm = 0;
    for (uint32_t r = 0; r < world; ++r) {
      float part = 0;
      for (uint64_t i = r * shard; i < std::min<uint64_t>((r + 1) * shard, kElements); ++i)
        part += gradient[i] * gradient[i];
      norm = r ? norm + part : part;
    }
    for (uint64_t i = 0; i < kElements; ++i)
      parameter[i] -= 1 / (1 + norm) * gradient[i];
  }
  return parameter;
}

TEST(HostStreams, ShardedStepsGiveTheReferenceBitForBit) {
  for (uint32_t world : {1, 2, 3})
    EXPECT_EQ(train(world), reference(world)) << world << " ranks";
}

TEST(HostStreams, KeptAndEarlyGathersChangeNoBit) {
  for (uint32_t world : {2, 3}) {
    EXPECT_EQ(train(world, withLives(true, false), 2), reference(world)) << "once a step";
    EXPECT_EQ(train(world, withLives(false, true), 5), reference(world)) << "the first step gathers its own too";
    EXPECT_EQ(train(world, withLives(true, true), 3), reference(world));
  }
}

TEST(HostStreams, WhatAnUpdateGatheredIsNotReadAfterParametersWereWritten) {
  auto communicators = createThreadCommunicators(2);
  onAllRanks(communicators, [&](uint32_t r, Communicator &communicator) {
    Rank rank;
    EXPECT_OK(rank.open(withLives(false, true), r, 2, 1, &communicator));
    const std::vector<float> ones(rank.shardElements(), 1), twos(rank.shardElements(), 2);
    const auto step = [&] {
      *rank.floats(Seed) = 1;
      EXPECT_OK(rank.executor->execute("microstep", 0));
      return rank.floats(Reduced)[0];
    };
    EXPECT_OK(rank.executor->writeSlot(Parameter, 0, ones.data(), ones.size() * 4));
    EXPECT_EQ(step(), 2.0f) << "summed over two ranks";
    EXPECT_EQ(step(), 2.0f) << "a micro-step that is repeated gathers again";
    EXPECT_OK(rank.executor->execute("update"));
    EXPECT_OK(rank.executor->writeSlot(Parameter, 0, twos.data(), twos.size() * 4));
    EXPECT_EQ(step(), 4.0f);
  });
}

/// Rank 1 does not begin before rank 0 has computed beside its gather.
TEST(HostStreams, ComputationGoesOnBesideACollective) {
  auto communicators = createThreadCommunicators(2);
  std::promise<void> computed;
  std::function<void()> signal = [&] { computed.set_value(); };
  onAllRanks(communicators, [&](uint32_t r, Communicator &communicator) {
    Rank rank;
    EXPECT_OK(rank.open(zero3(), r, 2, 1, &communicator));
    std::function<void()> *pointer = r == 0 ? &signal : nullptr;
    std::memcpy(rank.floats(Started), &pointer, sizeof(pointer));
    if (r == 1)
      EXPECT_EQ(computed.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_OK(rank.executor->execute("microstep", 0));
    EXPECT_EQ(rank.board.snapshot().collective, "reduce_scatter block0");
    EXPECT_FALSE(rank.board.snapshot().inCollective);
  });
}

TEST(HostStreams, StatisticsCountTimeOnTheSecondStream) {
  auto communicators = createThreadCommunicators(2);
  onAllRanks(communicators, [&](uint32_t r, Communicator &communicator) {
    auto slow = createSleepingCommunicator(communicator, 2048 / 0.02); // 20 ms for a shard of 512 f32
    Rank rank;
    EXPECT_OK(rank.open(zero3(), r, 2, 1, slow.get()));
    EXPECT_OK(rank.executor->execute("microstep", 0));
    uint64_t gather = 0, wait = 0;
    for (const StepStatistics &step : rank.executor->statistics().at(0).steps) {
      gather += step.name == "all_gather block0" ? step.nanoseconds : 0;
      wait += step.name == "wait block0" ? step.nanoseconds : 0;
    }
    EXPECT_GE(gather, 20'000'000u);
    EXPECT_GE(wait, 10'000'000u);
  });
}

TEST(HostStreams, LastMicrostepAloneReduces) {
  for (uint32_t world : {1, 2}) {
    auto communicators = createThreadCommunicators(world);
    onAllRanks(communicators, [&](uint32_t r, Communicator &communicator) {
      Rank rank;
      EXPECT_OK(rank.open(zero0(), r, world, 3, world == 1 ? nullptr : &communicator));
      std::fill_n(rank.floats(Gathered), kElements, float(r + 1));
      for (uint32_t m = 0; m < 3; ++m) {
        EXPECT_EQ(communicator.traffic().reduceScatter, 0u);
        EXPECT_OK(rank.executor->execute("microstep", m));
      }
      EXPECT_EQ(communicator.traffic().reduceScatter, (world - 1) * rank.shardElements() * 4);
      EXPECT_OK(rank.executor->execute("update"));
      EXPECT_EQ(std::vector<float>(rank.floats(Gradient), rank.floats(Gradient) + kElements),
                std::vector<float>(kElements, world == 1 ? 3 : 9));
      EXPECT_EQ(rank.executor->statistics().at(0).steps.at(3).count, 1u);
    });
  }
}

TEST(HostStreams, ALostRankSurfacesWhereSomebodyWaits) {
  auto communicators = createThreadCommunicators(2);
  Rank rank;
  EXPECT_OK(rank.open(zero3(), 0, 2, 1, communicators[0].get()));
  communicators[1].reset();
  Status status = rank.executor->execute("microstep", 0);
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.message(), "program microstep, step 'wait block0': all_gather block0: rank 1 is lost: it ended");
  EXPECT_TRUE(rank.board.snapshot().inCollective);
  EXPECT_FALSE(rank.executor->execute("update").isOk());
}

TEST(HostStreams, AbortEndsAWaitingProgram) {
  auto communicators = createThreadCommunicators(2);
  Rank rank;
  EXPECT_OK(rank.open(zero3(), 0, 2, 1, communicators[0].get()));
  std::promise<void> computed;
  std::function<void()> signal = [&] { computed.set_value(); }, *pointer = &signal;
  std::memcpy(rank.floats(Started), &pointer, sizeof(pointer));
  std::thread watchdog([&] {
    computed.get_future().wait();
    RankProgress progress = rank.board.snapshot();
    for (; progress.place != "microstep, 'wait block0'"; progress = rank.board.snapshot())
      std::this_thread::yield();
    communicators[0]->abort("the watchdog said so");
  });
  Status status = rank.executor->execute("microstep", 0);
  watchdog.join();
  EXPECT_EQ(status.message(), "program microstep, step 'wait block0': all_gather block0: the collectives were ended: "
                              "the watchdog said so");
}

/// A step that fails while a collective waits for others: execute() still returns, and nothing is under way.
TEST(HostStreams, AFailingStepEndsTheOtherStream) {
  auto communicators = createThreadCommunicators(2);
  plan::Plan plan = zero3();
  plan::Step &bad = *plan.mutable_programs(0)->mutable_steps(4); // "meanwhile"
  bad.clear_operands();
  for (uint32_t slot : {Gathered, Seed, Norm})
    bad.add_operands()->set_slot(slot);
  bad.mutable_gather()->set_rows(1);
  bad.mutable_gather()->set_row_bytes(4);
  bad.mutable_gather()->set_table_rows(1);
  Rank rank;
  EXPECT_OK(rank.open(std::move(plan), 0, 2, 1, communicators[0].get()));
  *rank.floats(Seed) = 7; // as an index far outside the table
  Status status = rank.executor->execute("microstep", 0);
  EXPECT_NE(status.message().find("step 'meanwhile'"), std::string::npos) << status.message();
  EXPECT_FALSE(communicators[0]->status().isOk());
}

TEST(HostStreams, WrongPlansAreRefused) {
  auto communicators = createThreadCommunicators(2);
  Rank rank;
  EXPECT_EQ(rank.open(zero3(), 0, 2, 1, nullptr).message(),
            "program microstep, step 'all_gather block0': 2 ranks without a communicator");
  EXPECT_EQ(rank.open(zero3(), 0, 2, 1, communicators[1].get()).code(), StatusCode::Internal);
  plan::Plan plan = zero3();
  plan.mutable_programs(0)->mutable_steps(4)->set_stream(1);
  EXPECT_EQ(rank.open(plan, 0, 2, 1, communicators[0].get()).message(),
            "program microstep, step 'meanwhile': the step is on stream 1, which runs collectives only");
  plan = zero3();
  plan.mutable_slots(Gradient)->mutable_size()->set_kind(plan::SizeForm::SHARD);
  EXPECT_EQ(rank.open(plan, 0, 2, 1, communicators[0].get()).code(), StatusCode::DataLoss);
}

} // namespace
} // namespace ztc::test::streams
