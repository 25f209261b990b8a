// Whole runs of the toy model on several ranks: the same mathematics on any of them, decisions that all take together.
#include "RankThreads.h"
#include "Scratch.h"
#include "ToyPlan.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Train/GlobalBatch.h"
#include "runtime/Train/Run.h"
#include "runtime/Train/Signals.h"
#include <csignal>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace ztc;
using namespace ztc::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr uint64_t kSeq = 4;

/// Row k is k, k, ...; keeps what was read.
class NumberedRows final : public RowSource {
public:
  std::vector<uint64_t> read_;
  Status read(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) override {
    read_.push_back(index);
    std::ranges::fill(tokens, int32_t(index));
    std::ranges::fill(targets, index % 2 ? -1 : 1);
    return index == 99 ? invalidArgument("row 99 is bad") : Status::ok();
  }
};

TEST(GlobalBatchOfRanks, RowsGoByMicroStepThenByRank) {
  NumberedRows rows;
  GlobalBatch batch(2, 2, kSeq, {1, 3}); // M = 2, B = 2, rank 1 of 3
  ASSERT_TRUE(batch.fill(rows, 12).isOk());
  EXPECT_THAT(rows.read_, ElementsAre(14, 15, 20, 21)); // 12 + (m 3 + 1) 2 + b
  EXPECT_EQ(batch.globalRows(), 12u);
  EXPECT_EQ(batch.countedTargets(), 2 * kSeq);
  EXPECT_EQ(batch.tokens(1)[kSeq], 21);
  rows.read_.clear();
  ASSERT_TRUE(batch.fill(rows, 0, 9).isOk()); // of its rows 2, 3, 8, 9 the last is padding
  EXPECT_THAT(rows.read_, ElementsAre(2, 3, 8));
  EXPECT_EQ(batch.targets(1)[kSeq], -1);
  EXPECT_FALSE(batch.fill(rows, 97).isOk());
  EXPECT_EQ(batch.countedTargets(), 0u);
}

/// Row k's weights are 0, w, 2 w, 3 w with w = 0.1 (k + 1).
class WeightedRows final : public RowSource {
public:
  Status read(uint64_t, std::span<int32_t> tokens, std::span<int32_t> targets) override {
    std::ranges::fill(tokens, 1);
    std::ranges::fill(targets, 1);
    targets[3] = -1;
    return Status::ok();
  }
  Status readWeights(uint64_t index, std::span<float> weights) override {
    for (size_t t = 0; t < weights.size(); ++t)
      weights[t] = 0.1f * float(t) * float(index + 1);
    return Status::ok();
  }
};

TEST(GlobalBatchOfRanks, WeightsAddUpAlikeOnAnyNumberOfRanks) {
  WeightedRows rows;
  GlobalBatch whole(6, 2, kSeq, {}, /*isWeighted=*/true);
  ASSERT_TRUE(whole.fill(rows, 0).isOk());
  EXPECT_EQ(whole.countedTargets(), 24u) << "a weight of 0 is as a label that does not count";
  EXPECT_EQ(whole.targets(0)[0], -1);
  double expected = 0;
  for (int row = 0; row < 12; ++row)
    expected += double(0.1f * 1 * float(row + 1)) + double(0.1f * 2 * float(row + 1));
  EXPECT_DOUBLE_EQ(whole.weightSum().value(), expected);
  for (uint64_t world : {2, 3}) {
    LossWeightSum sum;
    for (uint64_t rank = world; rank-- > 0;) {
      GlobalBatch part(6 / world, 2, kSeq, {rank, world}, /*isWeighted=*/true);
      ASSERT_TRUE(part.fill(rows, 0).isOk());
      sum.add(part.weightSum());
    }
    EXPECT_EQ(sum.value(), whole.weightSum().value());
  }
  GlobalBatch unweighted(6, 2, kSeq);
  ASSERT_TRUE(unweighted.fill(rows, 0).isOk());
  EXPECT_EQ(unweighted.weightSum().value(), 36);
  EXPECT_TRUE(unweighted.weights(0).empty());
  LossWeightSum tiny;
  tiny.add(1e-30f);
  EXPECT_GT(tiny.value(), 0) << "it divides";
}

class RankTrain : public testing::Test {
protected:
  Scratch scratch_;
  uint64_t batch_ = 1;

  void SetUp() override {
    clearStopSignal();
    writeData("data.safetensors", 26, 0);
  }

  /// Different numbers of ignored labels in each row; rows [empty, empty + 4) have none that counts.
  void writeData(const std::string &name, int64_t rows, int64_t bad, int64_t empty = -10) {
    SafetensorsLayout layout = layoutSafetensors(
        {{"input_ids", plan::I64, {rows, int64_t(kSeq)}}, {"labels", plan::I64, {rows, int64_t(kSeq)}}});
    std::string bytes = layout.header;
    bytes.resize(layout.fileBytes);
    for (uint64_t tensor = 0; tensor < 2; ++tensor)
      for (int64_t i = 0; i < rows * int64_t(kSeq); ++i) {
        const int64_t row = i / int64_t(kSeq);
        int64_t token = (i * 7 + 3) % 250;
        if (tensor == 1 && (i % 5 == 2 || (i * i) % 7 == 1 || (row >= empty && row < empty + 4)))
          token = -100;
        if (bad && row == bad)
          token = 300;
        std::memcpy(bytes.data() + layout.offsets[tensor] + uint64_t(i) * 8, &token, 8);
      }
    scratch_.write(name, bytes);
  }

  RunOptions options() const {
    RunOptions o;
    o.plan = scratch_.path("toy.bin");
    o.data = {scratch_.path("data.safetensors")};
    o.steps = 6;
    o.learningRate = 0.05;
    o.init = "normal:0.02";
    o.noSave = true;
    return o;
  }
  RunOptions savingOptions() const {
    RunOptions o = options();
    o.noSave = false;
    return o;
  }

  std::vector<Status> run(uint32_t world, const RunOptions &options,
                          const std::function<void(uint32_t, RunOptions &)> &change = nullptr) {
    return runRanks(world, [&](ControlChannel &control) -> Status {
      RunOptions mine = options;
      if (change)
        change(control.rank(), mine);
      ZTC_RETURN_IF_ERROR(checkOptions(mine));
      ZTC_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, toy::makeDevice());
      toy::ranks = &control;
      std::FILE *screen = std::fopen(scratch_.path("screen").c_str(), "a");
      const char *sha256 = mine.plan == scratch_.path("toy.bin") ? "0123" : "4567";
      const Status status =
          runPlan(mine, {toy::makePlan(batch_, kSeq), sha256}, std::move(device), {.out = screen}, {.control = control})
              .status();
      std::fclose(screen);
      toy::ranks = nullptr;
      return status;
    });
  }

  /// Two ranks stop after `steps` of a run and leave a checkpoint in "ck".
  void leaveCheckpoint(RunOptions o, uint64_t steps) {
    o.exportFolder.clear();
    o.stopAfter = steps;
    o.save = scratch_.path("ck");
    ASSERT_EQ(firstMessage(run(2, o)), "ok");
  }
  RunOptions resumingOptions(RunOptions o) const {
    o.init.clear();
    o.resume = scratch_.path("ck");
    return o;
  }

  /// Log lines with a step, of one run.
  std::vector<nlohmann::json> log(const std::string &name, const char *key = "grad_norm") {
    std::istringstream text(*readWholeFile(scratch_.path(name)));
    std::vector<nlohmann::json> found;
    for (std::string line; std::getline(text, line);)
      if (nlohmann::json json = nlohmann::json::parse(line, nullptr, false); json.contains(key))
        found.push_back(std::move(json));
    return found;
  }
  std::vector<float> weights(const std::string &folder) {
    const StatusOr<SafetensorsFile> file = SafetensorsFile::open(scratch_.path(folder + "/model.safetensors"));
    std::vector<float> values(toy::kVocabulary, NAN);
    if (file.isOk())
      std::memcpy(values.data(), file->data(*file->find("w.weight")).data(), values.size() * 4);
    return values;
  }
};

TEST_F(RankTrain, OneGlobalBatchOnAnyRanks) {
  for (const auto &[world, accumulate] : {std::pair(1u, 4u), std::pair(2u, 2u), std::pair(4u, 1u)}) {
    const std::string name = std::to_string(world);
    RunOptions o = savingOptions();
    o.accumulate = accumulate;
    o.logJson = scratch_.path("log" + name);
    o.exportFolder = scratch_.path("out" + name);
    o.evalData = o.data;
    ASSERT_EQ(firstMessage(run(world, o)), "ok");
    const auto one = log("log1"), these = log("log" + name);
    ASSERT_EQ(these.size(), 6u);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(one[i]["loss"].get<double>(), these[i]["loss"].get<double>(),
                  1e-2 * 1e-3 * one[i]["loss"].get<double>());
      EXPECT_EQ(one[i]["targets"], these[i]["targets"]);
      EXPECT_EQ(these[i]["tokens"], 4 * kSeq);
    }
    EXPECT_EQ(log("log" + name, "world")[0]["world"], world);
    EXPECT_EQ(log("log1", "eval_loss")[0]["targets"], log("log" + name, "eval_loss")[0]["targets"]);
    EXPECT_NEAR(log("log1", "eval_loss")[0]["eval_loss"].get<double>(),
                log("log" + name, "eval_loss")[0]["eval_loss"].get<double>(), 1e-2);
    const std::vector<float> a = weights("out1"), b = weights("out" + name);
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-4);
  }
  const auto lines = [&](const std::string &name) {
    const std::string text = *readWholeFile(scratch_.path(name));
    return std::ranges::count(text, '\n');
  };
  EXPECT_EQ(lines("log4"), lines("log1")) << "one rank writes the log";
}

TEST_F(RankTrain, AResumeOnTheSameRanksIsExactInTheMiddleOfAnEpoch) {
  RunOptions whole = savingOptions();
  whole.accumulate = 2;
  whole.shuffle = true;
  whole.steps = 10; // 40 rows of 26
  whole.exportFolder = scratch_.path("whole");
  ASSERT_EQ(firstMessage(run(2, whole)), "ok");
  leaveCheckpoint(whole, 3);
  RunOptions rest = resumingOptions(savingOptions());
  rest.steps = 10;
  rest.exportFolder = scratch_.path("rest");
  rest.logJson = scratch_.path("log");
  ASSERT_EQ(firstMessage(run(2, rest)), "ok");
  EXPECT_EQ(weights("whole"), weights("rest"));
  EXPECT_EQ(log("log")[0]["step"], 3);
  EXPECT_FALSE(log("log", "world")[0].contains("differs"));
}

TEST_F(RankTrain, AResumeOnOtherRanksKeepsTheGlobalBatch) {
  RunOptions whole = savingOptions();
  whole.accumulate = 2;
  whole.exportFolder = scratch_.path("whole");
  ASSERT_EQ(firstMessage(run(2, whole)), "ok");
  leaveCheckpoint(whole, 2);
  for (uint32_t world : {1, 4}) {
    RunOptions rest = resumingOptions(savingOptions());
    rest.exportFolder = scratch_.path("rest");
    rest.overwrite = true; // that of the other number of ranks
    rest.logJson = scratch_.path("log");
    ASSERT_EQ(firstMessage(run(world, rest)), "ok");
    const nlohmann::json head = log("log", "world").back();
    EXPECT_EQ(head["accumulate"], 4 / world);
    EXPECT_THAT(head["differs"].dump(), HasSubstr("world " + std::to_string(world) + ", it was 2"));
    const std::vector<float> a = weights("whole"), b = weights("rest");
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-4);
  }
  RunOptions rest = resumingOptions(options());
  EXPECT_THAT(firstMessage(run(3, rest)), HasSubstr("global batches of 4 rows, which 3 ranks x this plan's micro-batch "
                                                    "of 1 does not divide"));
  rest.accumulate = 4;
  EXPECT_THAT(firstMessage(run(2, rest)), HasSubstr("leave --accumulate out"));
}

TEST_F(RankTrain, AStepWithoutTargetsIsSkippedByAll) {
  writeData("data.safetensors", 26, 0, 8); // rows 8..11: step 2 of two ranks with two micro-steps
  RunOptions o = options();
  o.accumulate = 2;
  o.logJson = scratch_.path("log");
  ASSERT_EQ(firstMessage(run(2, o)), "ok");
  const auto steps = log("log");
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_EQ(steps[2]["skipped"], true);
  EXPECT_EQ(steps[2]["targets"], 0);
  EXPECT_EQ(steps[3]["skipped"], false);
}

TEST_F(RankTrain, ARowThatOneRankCannotReadEndsAllAtItsStep) {
  writeData("data.safetensors", 26, 9); // step 4 of two ranks, rank 1
  RunOptions o = options();
  o.scanBytes = 0; // as for a file that is too large to be read through before
  o.logJson = scratch_.path("log");
  for (const Status &status : run(2, o)) {
    EXPECT_THAT(status.message(), HasSubstr("step 4: rank 1: "));
    EXPECT_THAT(status.message(), HasSubstr("300"));
  }
  EXPECT_EQ(log("log").size(), 4u) << "the steps before it are done";
  RunOptions evaluating = options();
  evaluating.scanBytes = 0;
  writeData("held.safetensors", 26, 9);
  writeData("data.safetensors", 26, 0);
  evaluating.evalData = {scratch_.path("held.safetensors")};
  for (const Status &status : run(2, evaluating))
    EXPECT_THAT(status.message(), HasSubstr("--eval-data: rank 1: "));
}

TEST_F(RankTrain, ATokenThatTheModelDoesNotKnowIsFoundBeforeTheFirstStep) {
  writeData("bad.safetensors", 26, 9);
  RunOptions o = options();
  o.data = {scratch_.path("bad.safetensors")};
  o.logJson = scratch_.path("log");
  for (const Status &status : run(2, o))
    EXPECT_THAT(status.message(), HasSubstr("300"));
  EXPECT_FALSE(pathExists(scratch_.path("log")));
}

TEST_F(RankTrain, RanksThatWereStartedDifferentlyAreRefused) {
  writeData("other.safetensors", 26, 0, 3);
  const auto message = [&](const std::function<void(RunOptions &)> &change) {
    return firstMessage(run(3, options(), [&](uint32_t rank, RunOptions &o) {
      if (rank == 2)
        change(o);
    }));
  };
  EXPECT_THAT(message([](RunOptions &o) { o.learningRate = 1; }),
              HasSubstr("rank 2: this rank has --lr 1, rank 0 has --lr 0.05"));
  EXPECT_THAT(message([&](RunOptions &o) { o.plan = scratch_.path("other.bin"); }),
              HasSubstr("this rank has the plan " + scratch_.path("other.bin") +
                        " (SHA-256 4567), rank 0 has the plan " + scratch_.path("toy.bin") + " (SHA-256 0123)"));
  const std::string otherData = message([&](RunOptions &o) { o.data = {scratch_.path("other.safetensors")}; });
  EXPECT_THAT(otherData, HasSubstr("rank 2: this rank has the data " + scratch_.path("other.safetensors")));
  EXPECT_THAT(otherData, HasSubstr("rank 0 has the data " + scratch_.path("data.safetensors")));
  EXPECT_THAT(message([&](RunOptions &o) { o.data = {scratch_.path("none.safetensors")}; }),
              HasSubstr("none.safetensors"));
  EXPECT_THAT(message([](RunOptions &o) { o.accumulate = 2; }), HasSubstr("--accumulate 2"));
  // Each of these would wait for the others in an exchange that they never come to.
  EXPECT_THAT(message([&](RunOptions &o) { o.resume = scratch_.path("ck"), o.init.clear(); }),
              HasSubstr("--resume given, rank 0 has --resume none"));
  EXPECT_THAT(message([&](RunOptions &o) { o.exportFolder = scratch_.path("out"); }),
              HasSubstr("--export given, rank 0 has --export none"));
}

TEST_F(RankTrain, RanksThatWouldLoadOtherWeightsAreRefused) {
  for (const uint64_t steps : {1, 2}) {
    RunOptions o = savingOptions();
    o.steps = steps;
    o.exportFolder = scratch_.path("model" + std::to_string(steps));
    ASSERT_EQ(firstMessage(run(1, o)), "ok");
  }
  const auto message = [&](uint32_t other) {
    return firstMessage(run(2, options(), [&](uint32_t rank, RunOptions &o) {
      o.init.clear();
      o.weights = scratch_.path(rank == other ? "model2" : "model1");
    }));
  };
  EXPECT_THAT(message(1), HasSubstr("are not those that rank 0 loaded"));
  EXPECT_EQ(message(7), "ok");
}

TEST_F(RankTrain, RowsThatCannotBeReadDoNotCostTheModel) {
  writeData("bad.safetensors", 26, 9); // step 4 of two ranks, rank 1
  RunOptions o = savingOptions();
  o.scanBytes = 0; // as for a file that is too large to be read through before
  o.data = {scratch_.path("bad.safetensors")};
  o.save = scratch_.path("ck");
  for (const Status &status : run(2, o))
    EXPECT_THAT(status.message(), HasSubstr("the weights so far are in"));
  EXPECT_EQ(*listFolder(scratch_.path("ck")), std::vector<std::string>{"step-00000004"});
  o = savingOptions();
  o.scanBytes = 0;
  o.evalData = {scratch_.path("bad.safetensors")};
  o.exportFolder = scratch_.path("out");
  for (const Status &status : run(2, o))
    EXPECT_THAT(status.message(), HasSubstr("the weights so far are in"));
}

TEST_F(RankTrain, OneSignalStopsAllAndLeavesOneCheckpoint) {
  installStopSignals();
  std::raise(SIGUSR1);
  RunOptions o = savingOptions();
  o.save = scratch_.path("ck");
  const std::vector<Status> results = run(2, o);
  clearStopSignal();
  EXPECT_EQ(firstMessage(results), "ok");
  EXPECT_EQ(*listFolder(scratch_.path("ck")), std::vector<std::string>{"step-00000000"});
}

TEST_F(RankTrain, TextIsWrittenOnce) {
  RunOptions o;
  o.plan = scratch_.path("toy.bin");
  o.init = "normal:0.02";
  o.generate = 5;
  o.prompt = "xa";
  ASSERT_EQ(firstMessage(run(3, o)), "ok");
  EXPECT_EQ(*readWholeFile(scratch_.path("screen")), "xabcdef");
}

} // namespace
