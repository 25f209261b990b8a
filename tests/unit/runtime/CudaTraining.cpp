// The training loop on the CUDA device over the stand-ins of tests/standin: the host is a step ahead of the GPU, and
// nobody sees it in what comes out.
#include "runtime/Train/Session.h"
#include "runtime/Train/Signals.h"
#include "runtime/Train/TrainingLoop.h"
#include "tests/unit/runtime/CudaRunner.h"
#include "tests/unit/runtime/ToyGpuPlan.h"
#include <csignal>
#include <cstdio>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace ztc::test {
namespace {

constexpr uint64_t kSeq = 8, kBatch = 2, kAccumulate = 2, kSteps = 8;

class ToyRows final : public RowSource {
public:
  std::function<void(uint64_t index)> onRead;
  uint64_t uncountedFrom = UINT64_MAX, failsAt = UINT64_MAX;
  Status read(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) override {
    if (onRead)
      onRead(index);
    if (index == failsAt)
      return dataLoss("row " + std::to_string(index) + " is broken");
    const bool isCounted = index < uncountedFrom || index >= uncountedFrom + kBatch * kAccumulate;
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = int32_t((3 * index + i) % toy::kVocabulary);
      targets[i] = isCounted ? int32_t(index % 7 + i) : -100;
    }
    return Status::ok();
  }
};

/// A run of the toy, and what can be seen of it.
struct GpuRun {
  ToyRows rows, held;
  LoopSettings settings;
  LoopHooks hooks;
  LoopPosition position;
  std::vector<float> firstWeights = std::vector<float>(toy::kVocabulary, 0.0f);
  std::vector<std::string> seen; ///< the log without times, the end, the position, the weights

  GpuRun() {
    settings.schedule = {.kind = ScheduleKind::Linear, .learningRate = 0.1, .steps = kSteps};
    settings.stopAt = kSteps;
    settings.accumulate = kAccumulate;
  }

  Status open(CudaDeviceOptions options) {
    ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, standInDevice(std::move(options))(1));
    ZTC_ASSIGN_OR_RETURN(session, Session::open({.plan = toy::makeGpuPlan(kBatch, kSeq, ZTC_STANDIN_TOY), .sha256 = ""},
                                                std::move(device), {.accumulate = kAccumulate}, {*control}));
    return session->executor().writeSlot(toy::Weights, 0, firstWeights.data(), firstWeights.size() * sizeof(float));
  }

  void go(CudaDeviceOptions options) {
    clearStopSignal();
    Status status = open(std::move(options));
    ASSERT_TRUE(status.isOk()) << status.message();
    auto runner = ztc::StepRunner::create(session->plan(), session->executor());
    ASSERT_TRUE(runner.isOk()) << runner.status().message();
    JsonLog log;
    ASSERT_TRUE(log.open(logPath, false).isOk());
    Progress progress(nullptr, false);
    TrainingLoop loop(session->plan(), *runner, rows, {{"", &held, 3}}, settings, hooks, {*control}, log, progress);
    const StatusOr<LoopEnd> end = loop.run(position);
    std::ifstream in(logPath);
    for (std::string line; std::getline(in, line);) {
      nlohmann::json fields = nlohmann::json::parse(line, nullptr, false);
      if (fields.contains("step_ms"))
        EXPECT_GT(fields["step_ms"], 0);
      fields.erase("step_ms");
      fields.erase("tokens_per_second");
      seen.push_back(fields.dump());
    }
    ::unlink(logPath.c_str());
    seen.push_back(end.isOk() ? "end " + std::to_string(int(*end)) : end.status().message());
    seen.push_back(loop.endedByRows() ? "ended by rows" : "not ended by rows");
    seen.push_back(std::to_string(position.step) + " " + std::to_string(position.updates) + " " +
                   std::to_string(position.row) + " " + std::to_string(position.lossScale.scale));
    std::vector<float> weights(toy::kVocabulary);
    status = session->executor().readSlot(toy::Weights, 0, weights.data(), weights.size() * sizeof(float));
    EXPECT_TRUE(status.isOk()) << status.message();
    seen.push_back(nlohmann::json(weights).dump());
  }

  std::unique_ptr<ControlChannel> control = createSingleChannel();
  std::unique_ptr<Session> session;
  std::string logPath = testing::TempDir() + "ztc-gpu-run-" + std::to_string(::getpid());
};

/// The same run with a host that waits for every step and with one that does not.
template <typename Configure> void expectNoDifference(Configure configure) {
  GpuRun waits, ahead;
  configure(waits);
  waits.go({.libraries = {}, .synchronous = true});
  configure(ahead);
  ahead.go({});
  EXPECT_EQ(waits.seen, ahead.seen);
  clearStopSignal();
}

TEST(CudaTraining, NothingWaitsInsideAStep) {
  GpuRun run;
  struct Moment {
    uint64_t waits, launches;
    static Moment now() { return {calls("waits"), calls("cuGraphLaunch")}; }
  };
  std::vector<Moment> judged, read;
  run.settings.saveEvery = 1;
  run.hooks.save = [&](const LoopPosition &) {
    judged.push_back(Moment::now());
    return Status::ok();
  };
  run.rows.onRead = [&](uint64_t index) {
    if (index % (kBatch * kAccumulate) == 0)
      read.push_back(Moment::now());
  };
  const Moment before = Moment::now();
  run.go({});
  ASSERT_EQ(judged.size(), kSteps);
  ASSERT_EQ(read.size(), kSteps);
  // The first execution of each of the three shapes of a program is without a graph.
  constexpr uint64_t kPrograms = kAccumulate + 1;
  for (uint64_t t = 0; t + 2 < kSteps; ++t) {
    // When step t is judged the micro-steps of step t + 1 have been launched already, its update has not.
    EXPECT_EQ(judged[t].launches - before.launches, kPrograms * (t + 1) + kAccumulate - kPrograms) << t;
    // From there to the micro-steps of step t + 2 (its rows of step t + 3 are read first, but for the last) nothing
    // waits.
    if (t + 3 < kSteps)
      EXPECT_EQ(read[t + 3].waits, judged[t].waits) << t;
    // From loss to loss the host waits for the end of each program of step t + 1 and for its results.
    EXPECT_EQ(judged[t + 1].waits - judged[t].waits, kPrograms + 1) << t;
  }
}

TEST(CudaTraining, ResultsAreThoseOfTheirStep) {
  GpuRun run;
  ASSERT_TRUE(run.open({}).isOk());
  auto runner = ztc::StepRunner::create(run.session->plan(), run.session->executor());
  ASSERT_TRUE(runner.isOk()) << runner.status().message();
  GlobalBatch batch(kAccumulate, kBatch, kSeq);
  std::vector<float> losses;
  const auto begin = [&](uint64_t step) {
    ASSERT_TRUE(batch.fill(run.rows, step * batch.globalRows()).isOk());
    ASSERT_TRUE(
        runner->begin(batch, stepParameters(run.settings.schedule, {}, step, batch.countedTargets(), 1, 0)).isOk());
  };
  begin(0);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(runner->update().isOk());
    begin(step + 1);
    float later = 0; // the next step's, once everything is done
    ASSERT_TRUE(run.session->executor().readSlot(toy::Loss, 0, &later, sizeof later).isOk());
    const StatusOr<StepResult> result = runner->result();
    ASSERT_TRUE(result.isOk()) << result.status().message();
    losses.push_back(result->lossSum);
    EXPECT_NE(result->lossSum, later);
  }
  GpuRun waits;
  waits.go({.libraries = {}, .synchronous = true});
  for (size_t step = 0; step < losses.size(); ++step)
    EXPECT_DOUBLE_EQ(nlohmann::json::parse(waits.seen[step])["loss"],
                     double(losses[step]) / (kBatch * kAccumulate * kSeq));
}

TEST(CudaTraining, AWholeRunWithEvaluationsAndSkippedSteps) {
  expectNoDifference([](GpuRun &run) {
    run.settings.evalEvery = 3;
    run.rows.uncountedFrom = 3 * kBatch * kAccumulate; // step 3 has no target
  });
}

TEST(CudaTraining, OverflowsHalveTheScaleOfTheNextStep) {
  expectNoDifference([](GpuRun &run) {
    run.settings.schedule.steps = run.settings.stopAt = 24;
    run.settings.evalEvery = 5;
    run.rows.uncountedFrom = 4 * kBatch * kAccumulate;
    run.position.lossScale = {.scale = 0x1p68, .isDynamic = true};
  });
  expectNoDifference([](GpuRun &run) { // too many in a row
    run.settings.schedule.steps = run.settings.stopAt = 24;
    run.position.lossScale = {.scale = 0x1p200, .isDynamic = true};
  });
}

TEST(CudaTraining, ADivergedStepEndsTheRunBeforeIt) {
  expectNoDifference([](GpuRun &run) { run.firstWeights[4 * 3 * kBatch * kAccumulate + 1] = NAN; });
}

TEST(CudaTraining, SignalsAndBrokenRowsEndTheRunAfterTheStep) {
  expectNoDifference([](GpuRun &run) {
    installStopSignals();
    run.settings.saveEvery = 1;
    run.hooks.save = [](const LoopPosition &state) {
      if (state.step == 4)
        std::raise(SIGUSR1);
      return Status::ok();
    };
  });
  expectNoDifference([](GpuRun &run) { run.rows.failsAt = 5 * kBatch * kAccumulate + 1; });
}

} // namespace
} // namespace ztc::test
