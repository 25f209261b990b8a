// How much of slow communication hides behind computation: a plan on W ranks (threads of one process), without and with
// a network that takes bytes / rate for every collective. Usage: bench-overlap PLAN [ranks] [GB/s] [steps] [accumulate]
//   hidden = 1 - (time with the slow network - time without) / time that the network sleeps
// On a machine with other work these times say little. So the schedule is also replayed on two clocks, one for each
// stream, with the fastest execution of each step of the computation and bytes / rate for each collective: what it
// would hide if nothing came in between.
#include "runtime/Collective/Communicators.h"
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Train/Schedule.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace {
using namespace ztc;

/// The first steps do not count: memory is touched for the first time, and what an update gathers is not there yet.
constexpr uint32_t kFirstCounted = 2;

/// One rank's run; the times of its steps in seconds.
struct RankRun {
  Status status;
  std::vector<double> seconds;
  uint64_t sentBytes = 0; ///< in all steps that count together
  std::vector<ProgramStatistics> statistics = {};
};

/// Random tokens and small random weights: what is computed does not matter, denormal numbers would.
Status fillInputs(const plan::Plan &plan, Executor &executor, uint32_t rank, uint32_t accumulate) {
  std::mt19937 random(rank);
  const uint64_t tokens = plan.model().batch() * plan.model().seq();
  std::vector<int32_t> ids(tokens);
  for (int32_t &id : ids)
    id = int32_t(random() % plan.model().vocabulary());
  ZTC_RETURN_IF_ERROR(executor.writeSlot(plan.bindings().tokens(), 0, ids.data(), ids.size() * 4));
  ZTC_RETURN_IF_ERROR(executor.writeSlot(plan.bindings().targets(), 0, ids.data(), ids.size() * 4));
  for (const plan::Bucket &bucket : plan.buckets()) {
    float *values = reinterpret_cast<float *>(executor.slotAddress(bucket.parameter_slot()));
    for (uint64_t i = 0; i < executor.slotBytes(bucket.parameter_slot()) / 4; ++i)
      values[i] = 0.04f * (float(random() % 1024) / 1024.0f - 0.5f);
  }
  const StepParameterArray parameters = stepParameters({.steps = 1000}, {}, 0, tokens * accumulate);
  return executor.writeSlot(plan.bindings().step_parameters(), 0, parameters.data(), sizeof parameters);
}

Status runRank(const plan::Plan &plan, const PlanShape &shape, uint32_t rank, Communicator &communicator,
               uint32_t steps, RankRun &run) {
  ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, createHostDevice({.threads = shape.threads}));
  ZTC_ASSIGN_OR_RETURN(MemoryPlan memory, planMemory(plan, shape));
  ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor,
                       Executor::create(plan, memory, shape, rank, *device, shape.world > 1 ? &communicator : nullptr));
  ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Arena> arena, device->memory().allocateArena(memory.arenaBytes));
  ZTC_RETURN_IF_ERROR(executor->initialize(*arena));
  ZTC_RETURN_IF_ERROR(fillInputs(plan, *executor, rank, shape.accumulate));
  const auto sent = [&] { return communicator.traffic().sentBytes() + communicator.traffic().allReduce; };
  for (uint32_t step = 0; step < steps; ++step) {
    if (step == kFirstCounted)
      run.sentBytes = sent();
    const auto start = std::chrono::steady_clock::now();
    for (uint32_t m = 0; m < shape.accumulate; ++m)
      ZTC_RETURN_IF_ERROR(executor->execute("microstep", m));
    ZTC_RETURN_IF_ERROR(executor->execute("update"));
    run.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  run.sentBytes = sent() - run.sentBytes;
  run.statistics = executor->statistics();
  return Status::ok();
}

/// Median seconds of a step that counts and seconds that the slowest rank's network sleeps in one.
struct Measured {
  double step = 0, sleep = 0;
  std::vector<ProgramStatistics> statistics = {}; ///< of rank 0
};

/// Seconds of an optimizer step that is not the first: programs one after the other, each until both streams are done.
double replay(const plan::Plan &plan, const PlanShape &shape, const std::vector<ProgramStatistics> &statistics,
              double bytesPerSecond) {
  std::array<double, 2> clocks{};
  std::map<uint32_t, double> events;
  const auto run = [&](int index, uint32_t microstep) {
    const plan::Program &program = plan.programs(index);
    for (int i = 0; i < program.steps_size(); ++i) {
      const plan::Step &step = program.steps(i);
      if (step.stream() > 1 || !runsInMicrostep(step, microstep, shape.accumulate, /*isCarried=*/true))
        continue;
      double &clock = clocks[step.stream()];
      if (step.has_record())
        events[step.record().event()] = clock;
      else if (step.has_wait())
        clock = std::max(clock, events[step.wait().event()]);
      else if (!step.has_collective())
        clock += double(statistics[size_t(index)].steps[size_t(i)].shortest) / 1e9;
      else if (bytesPerSecond > 0 && step.collective().kind() != plan::Collective::ALL_REDUCE)
        clock += double((shape.world - 1) *
                        shardElements(plan.buckets(int(step.collective().bucket())).elements(), shape.world) *
                        dataTypeBytes(step.collective().type())) /
                 bytesPerSecond;
    }
    clocks.fill(std::max(clocks[0], clocks[1]));
  };
  for (int p = 0; p < plan.programs_size(); ++p)
    for (uint32_t m = 0; m < shape.accumulate; ++m)
      if (plan.programs(p).name() == "microstep" || (plan.programs(p).name() == "update" && m == 0))
        run(p, m);
  return clocks[0];
}

Measured measure(const plan::Plan &plan, const PlanShape &shape, uint32_t steps, double bytesPerSecond) {
  std::vector<std::unique_ptr<Communicator>> inner = createThreadCommunicators(shape.world);
  std::vector<std::unique_ptr<Communicator>> slow;
  std::vector<RankRun> runs(shape.world);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < shape.world; ++rank)
    slow.push_back(bytesPerSecond > 0 ? createSleepingCommunicator(*inner[rank], bytesPerSecond) : nullptr);
  for (uint32_t rank = 0; rank < shape.world; ++rank)
    threads.emplace_back([&, rank] {
      runs[rank].status = runRank(plan, shape, rank, slow[rank] ? *slow[rank] : *inner[rank], steps, runs[rank]);
    });
  for (std::thread &thread : threads)
    thread.join();
  Measured result;
  for (RankRun &run : runs) {
    if (!run.status.isOk()) {
      std::fprintf(stderr, "%s\n", run.status.message().c_str());
      std::exit(1);
    }
    std::sort(run.seconds.begin() + kFirstCounted, run.seconds.end());
    result.step = std::max(result.step, run.seconds[kFirstCounted + (run.seconds.size() - kFirstCounted) / 2]);
    if (bytesPerSecond > 0)
      result.sleep = std::max(result.sleep, double(run.sentBytes) / bytesPerSecond / (steps - kFirstCounted));
  }
  result.statistics = std::move(runs[0].statistics);
  return result;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench-overlap PLAN [ranks] [GB/s] [steps] [accumulate]\n");
    return 2;
  }
  auto number = [&](int index, double otherwise) { return argc > index ? std::atof(argv[index]) : otherwise; };
  auto loaded = readPlanFile(argv[1]);
  if (!loaded.isOk()) {
    std::fprintf(stderr, "%s\n", loaded.status().message().c_str());
    return 1;
  }
  PlanShape shape{.world = uint32_t(number(2, 2)), .accumulate = uint32_t(number(5, 1)), .threads = 1};
  const double rate = number(3, 0.2) * 1e9;
  const uint32_t steps = std::max<uint32_t>(4, uint32_t(number(4, 12)));
  const Measured fast = measure(loaded->plan, shape, steps, 0), slow = measure(loaded->plan, shape, steps, rate);
  std::printf("ZeRO-%u on %u ranks, M=%u: %.1f ms a step, with %.2f GB/s %.1f ms; the network sleeps %.1f ms, %.0f %% "
              "of it hidden\n",
              loaded->plan.zero(), shape.world, shape.accumulate, fast.step * 1e3, rate / 1e9, slow.step * 1e3,
              slow.sleep * 1e3, 100 * (1 - (slow.step - fast.step) / slow.sleep));
  const std::vector<ProgramStatistics> &times = fast.statistics;
  const double alone = replay(loaded->plan, shape, times, 0), together = replay(loaded->plan, shape, times, rate);
  std::printf("replayed with the fastest execution of each step: %.1f ms, with the network %.1f ms; %.0f %% hidden\n",
              alone * 1e3, together * 1e3, 100 * (1 - (together - alone) / slow.sleep));
  return 0;
}
