// The loop on a model that can be computed on paper: counting, accumulation, skipping, stopping, evaluation, log lines.
#include "ToyPlan.h"
#include "runtime/Train/Generate.h"
#include "runtime/Train/Sampling.h"
#include "runtime/Train/Signals.h"
#include "runtime/Train/TrainingLoop.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace ztc;

namespace {

constexpr uint64_t kSeq = 4;

/// Row k has tokens k..k+3 and targets 2k..2k+3; rows in `uncounted` have no counted target.
class CountingRows final : public RowSource {
public:
  std::vector<uint64_t> read_;
  std::vector<uint64_t> uncounted_;
  std::vector<uint64_t> spikes_; ///< rows whose targets are a thousand times as far
  Status read(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) override {
    read_.push_back(index);
    bool counted = std::ranges::find(uncounted_, index) == uncounted_.end();
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = int32_t((index + i) % toy::kVocabulary);
      const int32_t factor = std::ranges::find(spikes_, index) == spikes_.end() ? 1 : 1000;
      const uint64_t level = spikes_.empty() ? index : index % 8;
      targets[i] = counted && i != 1 ? factor * int32_t(2 * level + i) : -100;
    }
    return Status::ok();
  }
};

struct ToyRun {
  toy::Machine machine;
  CountingRows rows;
  CountingRows held;
  std::vector<EvaluationSet> evaluation;
  LoopSettings settings;
  LoopHooks hooks;
  JsonLog log;
  LoopPosition position;
  std::unique_ptr<ControlChannel> control = createSingleChannel();
  std::string logPath = testing::TempDir() + "ztc-loop-XXXXXX";
  std::FILE *screen = std::fopen("/dev/null", "w");

  ToyRun() {
    clearStopSignal();
    settings.schedule = {.kind = ScheduleKind::Constant, .learningRate = 0.1, .steps = 4};
    settings.stopAt = 4;
    int descriptor = mkstemp(logPath.data());
    if (descriptor >= 0)
      close(descriptor);
  }
  ~ToyRun() {
    std::remove(logPath.c_str());
    std::fclose(screen);
  }

  StatusOr<LoopEnd> go(uint64_t batch, uint64_t accumulate) {
    ZTC_RETURN_IF_ERROR(machine.start(batch, kSeq, uint32_t(accumulate)));
    settings.accumulate = accumulate;
    return resume();
  }
  StatusOr<LoopEnd> resume() {
    ZTC_ASSIGN_OR_RETURN(StepRunner runner, StepRunner::create(machine.plan, *machine.executor));
    ZTC_RETURN_IF_ERROR(log.open(logPath, false));
    Progress progress(screen, false);
    TrainingLoop loop(machine.plan, runner, rows, evaluation, settings, hooks, {*control}, log, progress);
    return loop.run(position);
  }
  std::vector<nlohmann::json> lines() const {
    std::ifstream in(logPath);
    std::vector<nlohmann::json> found;
    for (std::string line; std::getline(in, line);)
      found.push_back(nlohmann::json::parse(line, nullptr, false));
    return found;
  }
  std::vector<float> weights() const {
    float *begin = machine.floats(toy::Weights);
    return {begin, begin + toy::kVocabulary};
  }
};

TEST(TrainLoop, LossIsTheMeanOverCountedTargets) {
  ToyRun run;
  auto end = run.go(2, 1);
  ASSERT_TRUE(end.isOk()) << end.status().message();
  EXPECT_EQ(*end, LoopEnd::Finished);
  auto lines = run.lines();
  ASSERT_EQ(lines.size(), 4u);
  // Rows 0 and 1 from w = 0, positions 0, 2, 3: targets 0 2 3 and 2 4 5.
  EXPECT_DOUBLE_EQ(lines[0]["loss"], double(0 + 4 + 9 + 4 + 16 + 25) / 6);
  EXPECT_EQ(lines[0]["targets"], 6);
  EXPECT_EQ(lines[0]["tokens"], 8);
  EXPECT_EQ(lines[0]["lr"], 0.1);
  EXPECT_EQ(lines[0]["skipped"], false);
  EXPECT_EQ(lines[3]["step"], 3);
  EXPECT_GT(lines[3]["tokens_per_second"], 0);
  EXPECT_EQ(run.rows.read_, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(run.position.row, 8u);
}

TEST(TrainLoop, AccumulationIsTheSameMathematics) {
  ToyRun whole, parts;
  ASSERT_TRUE(whole.go(4, 1).isOk());
  ASSERT_TRUE(parts.go(1, 4).isOk());
  EXPECT_EQ(whole.rows.read_, parts.rows.read_);
  auto a = whole.weights(), b = parts.weights();
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_FLOAT_EQ(a[i], b[i]);
  EXPECT_EQ(whole.lines()[3]["targets"], parts.lines()[3]["targets"]);
}

/// 60 steps of which two are spikes, far enough apart to be judged by what lies between them.
void makeSpiked(ToyRun &run, double sigma) {
  run.rows.spikes_ = {30, 45};
  run.settings.schedule = {.kind = ScheduleKind::Constant, .learningRate = 1e-3, .steps = 60};
  run.settings.optimizer.clip = 0;
  run.settings.stopAt = 60;
  run.position.guard.sigma = sigma;
}

TEST(TrainLoop, ASpikeIsDroppedAndNothingElse) {
  ToyRun guarded, plain;
  makeSpiked(guarded, 6);
  makeSpiked(plain, 0);
  ASSERT_TRUE(guarded.go(1, 1).isOk());
  ASSERT_TRUE(plain.go(1, 1).isOk());
  auto lines = guarded.lines();
  ASSERT_EQ(lines.size(), 60u);
  for (uint64_t step = 0; step < lines.size(); ++step) {
    EXPECT_EQ(lines[step]["skipped"], step == 30 || step == 45) << step;
    EXPECT_EQ(lines[step].contains("norm_limit"), step == 30 || step == 45) << step;
    EXPECT_EQ(plain.lines()[step]["skipped"], false) << step;
  }
  EXPECT_GT(lines[30]["grad_norm"], lines[30]["norm_limit"]);
  EXPECT_EQ(guarded.position.updates, 58u);
  EXPECT_EQ(guarded.position.step, 60u);
  EXPECT_NE(guarded.weights(), plain.weights());
}

TEST(TrainLoop, TheWindowOfSpikesGoesOnWhereARunIsStopped) {
  ToyRun whole, parts;
  makeSpiked(whole, 6);
  makeSpiked(parts, 6);
  ASSERT_TRUE(whole.go(1, 1).isOk());
  parts.settings.stopAt = 31; // right after a spike
  ASSERT_TRUE(parts.go(1, 1).isOk());
  SpikeGuard read; // as from a checkpoint
  read.sigma = 6;
  for (float norm : parts.position.guard.window())
    read.add(norm);
  read.droppedInARow = parts.position.guard.droppedInARow;
  EXPECT_EQ(read.limit(), parts.position.guard.limit());
  parts.position.guard = read;
  parts.settings.stopAt = 60;
  ASSERT_TRUE(parts.resume().isOk());
  EXPECT_EQ(parts.weights(), whole.weights());
  EXPECT_EQ(parts.position.guard.window(), whole.position.guard.window());
}

TEST(SpikeGuard, ALevelThatStaysIsNoSpike) {
  SpikeGuard guard;
  guard.sigma = 4;
  for (int i = 0; i < 100; ++i)
    guard.add(i % 2 ? 1.0f : 1.1f);
  EXPECT_EQ(guard.window().size(), SpikeGuard::kWindow + 1);
  EXPECT_LT(guard.limit(), 2);
  for (uint64_t i = 1; i < SpikeGuard::kMostInARow; ++i)
    EXPECT_FALSE(guard.drop());
  EXPECT_TRUE(guard.drop());
  EXPECT_TRUE(std::isinf(guard.limit()));
  for (size_t i = 0; i <= SpikeGuard::kFewest; ++i)
    guard.add(5);
  EXPECT_NEAR(guard.limit(), 5 * (1 + 4 * SpikeGuard::kLeastDeviation), 1e-6);
}

TEST(SpikeGuard, TheNewestNormIsNotAskedFor) {
  SpikeGuard known, ahead;
  known.sigma = ahead.sigma = 3;
  for (int i = 0; i < 80; ++i)
    known.add(float(i % 7)), ahead.add(float(i % 7));
  known.add(3);
  ahead.add(0); // the step is still under way
  EXPECT_EQ(known.limit(), ahead.limit());
}

TEST(TrainLoop, StoppingAndGoingOnIsOneRun) {
  ToyRun whole, parts;
  ASSERT_TRUE(whole.go(1, 2).isOk());
  parts.settings.stopAt = 2;
  ASSERT_TRUE(parts.go(1, 2).isOk());
  EXPECT_EQ(parts.position.step, 2u);
  parts.settings.stopAt = 4;
  ASSERT_TRUE(parts.resume().isOk());
  EXPECT_EQ(whole.weights(), parts.weights());
}

TEST(TrainLoop, AStepWithoutTargetsIsSkipped) {
  ToyRun run;
  run.rows.uncounted_ = {2, 3};
  ASSERT_TRUE(run.go(2, 1).isOk());
  auto lines = run.lines();
  EXPECT_EQ(lines[1]["skipped"], true);
  EXPECT_TRUE(lines[1]["loss"].is_null());
  EXPECT_EQ(lines[2]["skipped"], false);
  EXPECT_EQ(run.position.step, 4u);
  EXPECT_EQ(run.position.updates, 3u); // schedule and Adam do not see it
  EXPECT_EQ(run.position.row, 8u);
}

TEST(TrainLoop, ANormThatIsNotFiniteEndsTheRunBeforeTheUpdate) {
  ToyRun run;
  ASSERT_TRUE(run.machine.start(1, kSeq).isOk());
  run.machine.floats(toy::Weights)[5] = std::numeric_limits<float>::quiet_NaN(); // token 5: first in row 2
  auto end = run.resume();
  ASSERT_TRUE(end.isOk()) << end.status().message();
  EXPECT_EQ(*end, LoopEnd::Diverged);
  EXPECT_EQ(run.position.step, 2u);
  EXPECT_EQ(run.position.row, 2u); // a resumed run meets the same batch
  EXPECT_EQ(run.lines().size(), 3u);
  EXPECT_TRUE(run.lines()[2]["grad_norm"].is_null());
  EXPECT_TRUE(std::isfinite(run.weights()[2]));
}

TEST(TrainLoop, OverflowingStepsAreSkippedAndTheScaleHalves) {
  ToyRun run;
  run.settings.schedule.steps = run.settings.stopAt = 30;
  run.position.lossScale = {.scale = 0x1p70, .isDynamic = true};
  std::vector<float> factors;
  run.hooks.dumpGradients = [&](float factor) {
    factors.push_back(factor);
    return Status::ok();
  };
  auto end = run.go(1, 1);
  ASSERT_TRUE(end.isOk()) << end.status().message();
  EXPECT_EQ(*end, LoopEnd::Finished);
  const auto lines = run.lines();
  ASSERT_EQ(lines.size(), 30u);
  uint64_t skips = 0;
  for (const auto &line : lines) {
    EXPECT_EQ(line["loss_scale"], std::exp2(70 - double(skips)));
    EXPECT_EQ(line["grad_norm"].is_null(), bool(line["skipped"]));
    EXPECT_FALSE(line["loss"].is_null());
    skips += bool(line["skipped"]);
  }
  EXPECT_EQ(lines[0]["skipped"], true);
  EXPECT_EQ(lines[29]["skipped"], false);
  EXPECT_EQ(run.position.step, 30u);
  EXPECT_EQ(run.position.row, 30u); // a skipped step consumes its rows
  EXPECT_EQ(run.position.updates, 30 - skips);
  EXPECT_EQ(run.position.lossScale.scale, std::exp2(70 - double(skips)));
  EXPECT_EQ(run.position.lossScale.skippedInARow, 0u);
  const auto firstGood = std::ranges::find_if(lines, [](const auto &line) { return !line["skipped"]; });
  ASSERT_EQ(factors.size(), size_t(firstGood - lines.begin()) + 1); // until a step is not skipped
  EXPECT_EQ(factors.front(), 0x1p-70f);
}

TEST(TrainLoop, TwentySkipsInARowEndTheRun) {
  ToyRun run;
  run.settings.schedule.steps = run.settings.stopAt = 50;
  run.position.lossScale = {.scale = 0x1p200, .isDynamic = true};
  auto end = run.go(1, 1);
  ASSERT_TRUE(end.isOk()) << end.status().message();
  EXPECT_EQ(*end, LoopEnd::Overflowed);
  EXPECT_EQ(run.position.step, 20u);
  EXPECT_EQ(run.position.updates, 0u);
  EXPECT_EQ(run.weights(), std::vector<float>(toy::kVocabulary, 0.0f));
}

TEST(LossScaleTest, DoublesAfterManyGoodStepsOnly) {
  LossScale scale{.scale = LossScale::kFirst, .isDynamic = true};
  for (int i = 0; i < 1999; ++i)
    scale.update(true);
  EXPECT_EQ(scale.scale, 65536);
  scale.update(false);
  EXPECT_EQ(scale.scale, 32768);
  for (int i = 0; i < 2000; ++i)
    scale.update(true);
  EXPECT_EQ(scale.scale, 65536);
  EXPECT_EQ(scale.goodSteps, 0u);
}

TEST(TrainLoop, HooksComeAtTheirSteps) {
  ToyRun run;
  std::vector<uint64_t> saved;
  int dumps = 0;
  run.settings.saveEvery = 2;
  run.hooks.save = [&](const LoopPosition &state) {
    saved.push_back(state.step);
    return Status::ok();
  };
  run.hooks.dumpGradients = [&](float) {
    ++dumps;
    EXPECT_EQ(run.weights()[0], 0.0f); // nothing is updated yet
    EXPECT_NE(run.machine.floats(toy::Gradient)[2], 0.0f);
    return Status::ok();
  };
  ASSERT_TRUE(run.go(1, 2).isOk());
  EXPECT_EQ(saved, (std::vector<uint64_t>{2, 4}));
  EXPECT_EQ(dumps, 1);
}

TEST(TrainLoop, SavesByTimeAndByTheBestEvaluation) {
  std::vector<uint64_t> saved;
  const auto save = [&](const LoopPosition &state) {
    saved.push_back(state.step);
    return Status::ok();
  };
  ToyRun timed;
  timed.settings.savePeriodSeconds = 0; // always over
  timed.hooks.save = save;
  ASSERT_TRUE(timed.go(1, 1).isOk());
  EXPECT_EQ(saved, (std::vector<uint64_t>{1, 2, 3, 4}));
  saved.clear();
  ToyRun best;
  best.evaluation = {{"", &best.held, 3}};
  best.settings.evalEvery = 1;
  best.settings.savesBest = true;
  best.settings.schedule.learningRate = 0; // one evaluation is as good as the next
  best.hooks.save = [&](const LoopPosition &state) {
    EXPECT_TRUE(state.evalLoss.has_value());
    return save(state);
  };
  ASSERT_TRUE(best.go(1, 1).isOk());
  EXPECT_EQ(saved, (std::vector<uint64_t>{1}));
}

TEST(TrainLoop, AFailingHookEndsTheRunWithItsMessage) {
  ToyRun run;
  run.settings.saveEvery = 1;
  run.hooks.save = [](const LoopPosition &) { return resourceExhausted("disk full"); };
  auto end = run.go(1, 1);
  ASSERT_FALSE(end.isOk());
  EXPECT_EQ(end.status().message(), "disk full");
}

TEST(TrainLoop, ASaveInFlightIsJudgedAfterALaterStep) {
  ToyRun run;
  run.settings.saveEvery = 2;
  int asked = 0;
  bool isInFlight = false;
  std::vector<std::string> events;
  run.hooks.save = [&](const LoopPosition &state) {
    events.push_back("save " + std::to_string(state.step));
    isInFlight = true;
    asked = 0;
    return Status::ok();
  };
  run.hooks.beforeUpdate = [&] { events.push_back("update"); };
  run.hooks.isSaved = [&] { return isInFlight && ++asked == 2; };
  run.hooks.endSave = [&] {
    events.push_back("end");
    isInFlight = false;
    return Status::ok();
  };
  ASSERT_TRUE(run.go(1, 1).isOk());
  EXPECT_EQ(events, (std::vector<std::string>{"update", "update", "save 2", "update", "update", "end", "save 4"}));
}

TEST(TrainLoop, ASignalStopsAtTheNextStepBoundary) {
  ToyRun run;
  installStopSignals();
  run.settings.saveEvery = 1;
  run.hooks.save = [](const LoopPosition &state) {
    if (state.step == 2)
      std::raise(SIGUSR1);
    return Status::ok();
  };
  auto end = run.go(1, 1);
  ASSERT_TRUE(end.isOk());
  EXPECT_EQ(*end, LoopEnd::Signalled);
  EXPECT_EQ(run.position.step, 2u);
  clearStopSignal();
}

TEST(TrainLoop, EvaluationPadsAShortBatchWithIgnoredRows) {
  ToyRun run;
  run.evaluation = {{"", &run.held, 3}};
  run.settings.evalEvery = 3;
  run.settings.schedule.learningRate = 0; // w stays 0
  ASSERT_TRUE(run.go(2, 2).isOk());
  EXPECT_EQ(run.held.read_, (std::vector<uint64_t>{0, 1, 2, 0, 1, 2})); // after step 3 and at the end
  auto lines = run.lines();
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[3]["event"], "eval");
  EXPECT_EQ(lines[3]["targets"], 9);
  EXPECT_DOUBLE_EQ(lines[3]["eval_loss"], double(0 + 4 + 9 + 4 + 16 + 25 + 16 + 36 + 49) / 9);
  EXPECT_EQ(lines[5]["eval_loss"], lines[3]["eval_loss"]);
}

TEST(TrainLoop, RandomRowsAreAFunctionOfSeedAndIndex) {
  RandomRows one(10, 1), other(10, 2);
  std::vector<int32_t> a(64), b(64), c(64), targets(64);
  ASSERT_TRUE(one.read(7, a, targets).isOk());
  for (size_t i = 0; i + 1 < a.size(); ++i)
    EXPECT_EQ(targets[i], a[i + 1]);
  ASSERT_TRUE(one.read(7, b, targets).isOk());
  ASSERT_TRUE(other.read(7, c, targets).isOk());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  for (int32_t token : a)
    EXPECT_TRUE(token >= 0 && token < 10);
}

/// What greedy generation from bytes makes of each prompt.
std::vector<std::string> continuations(NextTokenModel &model, ControlChannel &control,
                                       const std::vector<std::string> &prompts, uint64_t count,
                                       const std::vector<int32_t> &stops = {}) {
  std::vector<std::string> found(prompts.size());
  std::vector<Continuation> texts;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Continuation &text = texts.emplace_back();
    text.tokens = *tokensOfBytes(prompts[i], model.vocabulary());
    text.count = count;
    text.stops = stops;
    text.choose = [](std::span<const float> logits, uint64_t place) { // the others cannot be printed
      return chooseToken(logits.first(std::min<size_t>(logits.size(), kByteTokens)), {}, 0, place);
    };
    text.emit = [&found, i](int32_t token) {
      found[i].push_back(char(token));
      return Status::ok();
    };
    text.end = [&found, i](bool stopped) {
      found[i] += stopped ? "." : "|";
      return Status::ok();
    };
  }
  const StatusOr<bool> complete = generateTexts(model, control, texts);
  EXPECT_TRUE(complete.isOk() && *complete);
  return found;
}

TEST(TrainGenerate, TextGoesOnAndTheWindowSlides) {
  toy::Machine machine;
  Status status = machine.start(2, kSeq);
  ASSERT_TRUE(status.isOk()) << status.message();
  clearStopSignal();
  auto control = createSingleChannel();
  auto model = createForwardModel(machine.plan, *machine.executor);
  ASSERT_TRUE(model.isOk()) << model.status().message();
  EXPECT_EQ(continuations(**model, *control, {"a"}, 10), (std::vector<std::string>{"bcdefghijk|"}));
  EXPECT_EQ(continuations(**model, *control, {"longer than S: x"}, 2), (std::vector<std::string>{"yz|"}));
}

/// The next letter of the alphabet for each of three places, which remember what they had.
class Alphabet final : public NextTokenModel {
public:
  uint64_t batch() const override { return 3; }
  uint64_t vocabulary() const override { return 128; }
  Status logits(std::span<const std::vector<int32_t>> texts, std::span<float> logits) override {
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<int32_t> &text = texts[i], &before = seen_[i];
      const bool grew =
          !before.empty() && text.size() == before.size() + 1 && std::equal(before.begin(), before.end(), text.begin());
      begun_ += !text.empty() && !grew;
      if (!text.empty())
        logits[i * vocabulary() + size_t(text.back() + 1)] = float(++calls_); // above those of the calls before
      seen_[i] = text;
    }
    return Status::ok();
  }
  int begun_ = 0;

private:
  std::vector<int32_t> seen_[3];
  int calls_ = 0;
};

TEST(TrainGenerate, ATextKeepsItsPlaceUntilItEnds) {
  clearStopSignal();
  auto control = createSingleChannel();
  Alphabet model;
  const std::vector<std::string> found =
      continuations(model, *control, {"a", "m", "w", "c", "p"}, 4, {int32_t('n'), int32_t('z')});
  EXPECT_EQ(found, (std::vector<std::string>{"bcde|", ".", "xy.", "defg|", "qrst|"}));
  EXPECT_EQ(model.begun_, 5) << "each text once";
}

} // namespace
