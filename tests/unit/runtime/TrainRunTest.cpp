// Whole runs of the toy model: what is left behind, where it goes on, what is refused.
#include "ToyPlan.h"
#include "runtime/Checkpoint/OutputFolder.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Train/Run.h"
#include "runtime/Train/Session.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

using namespace ztc;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace ztc::test::runs {
namespace {

constexpr uint64_t kSeq = 4;

class TrainRun : public testing::Test {
protected:
  fs::path folder_;
  std::FILE *screen_ = nullptr;
  uint64_t batch_ = 2;

  void SetUp() override {
    std::string name = testing::TempDir() + "ztc-run-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    screen_ = std::fopen((folder_ / "screen").c_str(), "w");
    clearStopSignal();
    writeData("data.safetensors", 12);
  }
  void TearDown() override {
    std::fclose(screen_);
    fs::remove_all(folder_);
    clearStopSignal();
  }

  void writeData(const std::string &name, int64_t rows) {
    std::vector<SafetensorsSpec> specs{{"input_ids", plan::I64, {rows, int64_t(kSeq)}},
                                       {"labels", plan::I64, {rows, int64_t(kSeq)}}};
    SafetensorsLayout layout = layoutSafetensors(specs);
    std::string bytes = layout.header;
    bytes.resize(layout.fileBytes);
    for (uint64_t tensor = 0; tensor < 2; ++tensor)
      for (int64_t i = 0; i < rows * int64_t(kSeq); ++i) {
        int64_t token = (i * 7 + 3) % 250;
        std::memcpy(bytes.data() + layout.offsets[tensor] + uint64_t(i) * 8, &token, 8);
      }
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  RunOptions options() const {
    RunOptions o;
    o.plan = folder_ / "toy.bin";
    o.data = {folder_ / "data.safetensors"};
    o.steps = 6;
    o.learningRate = 0.05;
    o.init = "normal:0.02";
    return o;
  }

  StatusOr<RunEnd> run(const RunOptions &o) {
    Status options = checkOptions(o);
    EXPECT_TRUE(options.isOk()) << options.message();
    auto device = toy::makeDevice();
    EXPECT_TRUE(device.isOk());
    auto control = createSingleChannel();
    return runPlan(o, {toy::makePlan(batch_, kSeq), "0123"}, std::move(*device), {.out = screen_}, {*control});
  }
  void expectDone(const RunOptions &o) {
    auto end = run(o);
    ASSERT_TRUE(end.isOk()) << end.status().message();
    EXPECT_EQ(*end, RunEnd::Done);
  }
  std::vector<std::string> names(const fs::path &where) const {
    std::vector<std::string> found;
    if (fs::exists(where))
      for (const auto &entry : fs::directory_iterator(where))
        found.push_back(entry.path().filename());
    std::ranges::sort(found);
    return found;
  }
  std::string contents(const fs::path &path) const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(TrainRun, WithoutSaveAndExportTheModelIsNotLost) {
  expectDone(options());
  EXPECT_TRUE(fs::exists(folder_ / "toy-out" / "model.safetensors"));
}

TEST_F(TrainRun, NoSaveAndATrialLeaveNothing) {
  RunOptions o = options();
  o.noSave = true;
  auto before = names(folder_);
  expectDone(o);
  RunOptions trial;
  trial.plan = o.plan;
  expectDone(trial);
  EXPECT_EQ(names(folder_), before);
  std::fflush(screen_);
  EXPECT_THAT(contents(folder_ / "screen"), HasSubstr("step 19/20"));
}

TEST_F(TrainRun, ResumingGivesTheBitsOfTheWholeRun) {
  RunOptions whole = options();
  whole.shuffle = true;
  whole.seed = 5;
  whole.exportFolder = folder_ / "whole";
  expectDone(whole);
  RunOptions part = whole;
  part.exportFolder.clear();
  part.stopAfter = 2;
  part.save = folder_ / "ck";
  expectDone(part);
  EXPECT_THAT(names(folder_ / "ck"), ElementsAre("step-00000002"));
  RunOptions rest = options();
  rest.init.clear();
  rest.resume = folder_ / "ck"; // seed and order come from the checkpoint
  rest.exportFolder = folder_ / "rest";
  expectDone(rest);
  EXPECT_EQ(contents(folder_ / "whole" / "model.safetensors"), contents(folder_ / "rest" / "model.safetensors"));
}

TEST_F(TrainRun, AResumeKeepsTheGlobalBatch) {
  RunOptions part = options();
  part.accumulate = 2;
  part.stopAfter = 2;
  part.save = folder_ / "ck";
  expectDone(part);
  RunOptions rest = options();
  rest.init.clear();
  rest.resume = folder_ / "ck";
  rest.logJson = folder_ / "log";
  rest.noSave = true;
  batch_ = 1;
  expectDone(rest);
  EXPECT_THAT(contents(folder_ / "log"), HasSubstr("\"accumulate\":4"));
  rest.accumulate = 2;
  EXPECT_THAT(run(rest).status().message(), HasSubstr("leave --accumulate out"));
  rest.accumulate.reset();
  batch_ = 3;
  EXPECT_THAT(run(rest).status().message(), HasSubstr("does not divide"));
}

TEST_F(TrainRun, StopAfterAndSaveEveryAtOneStepMakeOneCheckpoint) {
  RunOptions o = options();
  o.stopAfter = 4;
  o.saveEvery = 2;
  o.keep = 1;
  o.save = folder_ / "ck";
  expectDone(o);
  EXPECT_THAT(names(folder_ / "ck"), ElementsAre("step-00000004"));
}

TEST_F(TrainRun, ASignalLeavesACheckpointInTheDefaultFolder) {
  installStopSignals();
  std::raise(SIGTERM);
  auto end = run(options());
  ASSERT_TRUE(end.isOk()) << end.status().message();
  EXPECT_EQ(*end, RunEnd::Stopped);
  EXPECT_THAT(names(folder_ / "toy-out"), testing::Contains("step-00000000"));
}

TEST_F(TrainRun, DivergingSavesTheLastWeightsAndNamesTheStep) {
  RunOptions o = options();
  o.steps = 8; // row 0 comes again at step 6
  o.learningRate = 1e38;
  o.optimizer.clip = 0;
  o.schedule = ScheduleKind::Constant;
  auto end = run(o);
  ASSERT_FALSE(end.isOk());
  EXPECT_THAT(end.status().message(), HasSubstr("step 6: the gradient norm is not finite"));
  EXPECT_THAT(names(folder_ / "toy-out"), testing::Contains("diverged-step-00000006"));
}

TEST_F(TrainRun, AFailedRunLeavesNoEmptyFolderAndNoEmptyLog) {
  const auto before = names(folder_);
  RunOptions o = options();
  o.init.clear();
  o.weights = folder_ / "nothing"; // found out after the folders are checked
  o.save = folder_ / "ck" / "run";
  o.exportFolder = folder_ / "model";
  o.logJson = folder_ / "log";
  EXPECT_FALSE(run(o).isOk());
  EXPECT_EQ(names(folder_), before);
}

TEST_F(TrainRun, ALogThatCannotBeWrittenIsKnownBeforeTheModelIsLoaded) {
  RunOptions o = options();
  o.init.clear();
  o.weights = folder_ / "nothing";
  o.noSave = true; // else the export asks these weights for their types first
  o.logJson = folder_ / "none" / "log";
  EXPECT_THAT(run(o).status().message(), HasSubstr("--log-json: cannot write"));
}

TEST_F(TrainRun, AFolderHasOneRunAtATime) {
  RunOptions o = options();
  const auto other = OutputFolder::claim(folder_ / "ck");
  ASSERT_TRUE(other.isOk());
  o.save = folder_ / "ck";
  EXPECT_THAT(run(o).status().message(), HasSubstr("another run is writing into"));
  // Checkpoints and model in one folder are one run's.
  o.save = folder_ / "both";
  o.exportFolder = folder_ / "both" / "";
  expectDone(o);
  EXPECT_THAT(names(folder_ / "both"), testing::IsSupersetOf({"step-00000006", "model.safetensors"}));
}

TEST_F(TrainRun, EpochsBecomeSteps) {
  RunOptions o = options();
  o.steps.reset();
  o.epochs = 1.5; // 12 rows, 2 a step: 9 steps
  o.noSave = true;
  o.logJson = folder_ / "log";
  expectDone(o);
  EXPECT_THAT(contents(folder_ / "log"), HasSubstr("{\"step\": 8,"));
  EXPECT_THAT(contents(folder_ / "log"), testing::Not(HasSubstr("{\"step\": 9,")));
}

TEST_F(TrainRun, GradientsAreDumpedOnce) {
  RunOptions o = options();
  o.noSave = true;
  o.dumpGradients = folder_ / "gradients";
  expectDone(o);
  auto file = SafetensorsFile::open(o.dumpGradients);
  ASSERT_TRUE(file.isOk());
  ASSERT_NE(file->find("w.weight"), nullptr);
}

TEST_F(TrainRun, TextFromTheModel) {
  RunOptions o;
  o.plan = folder_ / "toy.bin";
  o.init = "normal:0.02";
  o.generate = 5;
  o.prompt = "xa";
  expectDone(o);
  std::fflush(screen_);
  EXPECT_EQ(contents(folder_ / "screen"), "xabcdef");
}

TEST_F(TrainRun, MemoryThatIsNotThereIsRefusedByTheByte) {
  plan::Plan plan = toy::makePlan(2, kSeq);
  MemoryPlan memory;
  memory.arenaBytes = 1000;
  EXPECT_TRUE(checkMemory(plan, {}, memory, 1000).isOk());
  EXPECT_THAT(checkMemory(plan, {}, memory, 900).message(), HasSubstr("100 bytes more"));
  EXPECT_TRUE(checkMemory(plan, {.world = 2}, memory, 2000, 2).isOk());
  EXPECT_THAT(checkMemory(plan, {.world = 4}, memory, 1500, 2).message(),
              HasSubstr("for the 2 ranks on this host, 500 bytes more"));
  plan.set_budget_bytes(1050);
  EXPECT_THAT(checkMemory(plan, {}, memory, UINT64_MAX, 1, "this host", {.reserveBytes = 100}).message(),
              HasSubstr("50 bytes above the budget"));
}

TEST(TrainMemory, WhatComesAfterTheArenaIsCounted) {
  const plan::Plan plan = toy::makePlan(2, kSeq);
  MemoryPlan memory;
  memory.arenaBytes = 1000;
  EXPECT_TRUE(checkMemory(plan, {}, memory, 1300, 1, "GPU 0", {.reserveBytes = 900, .lateBytes = 300}).isOk());
  EXPECT_THAT(checkMemory(plan, {}, memory, 1200, 1, "GPU 0", {.reserveBytes = 900, .lateBytes = 300}).message(),
              HasSubstr("with what libraries still take, 100 bytes more than the 1.17 KiB that are free"));
}

} // namespace
} // namespace ztc::test::runs
