// Learning rates against the formulas written out, and step parameters against double arithmetic.
#include "runtime/Train/Schedule.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace ztc;

namespace {

float at(const StepParameterArray &values, StepParameter which) {
  return values[uint32_t(which)];
}

Schedule schedule(ScheduleKind kind) {
  return {.kind = kind, .learningRate = 1e-3, .steps = 30, .warmup = 5, .minRatio = 0.1};
}

TEST(TrainSchedule, WarmUpIsALineThatReachesTheFullRate) {
  for (auto kind :
       {ScheduleKind::Cosine, ScheduleKind::Linear, ScheduleKind::Constant, ScheduleKind::WarmupStableDecay}) {
    Schedule s = schedule(kind);
    for (uint64_t t = 0; t < 5; ++t)
      EXPECT_DOUBLE_EQ(s.rate(t), 1e-3 * (double(t) + 1) / 5);
  }
}

TEST(TrainSchedule, CosineIsTheFormulaOfTheDesign) {
  Schedule s = schedule(ScheduleKind::Cosine);
  for (uint64_t t = 5; t < 30; ++t)
    EXPECT_DOUBLE_EQ(s.rate(t), 1e-4 + 9e-4 * (1 + std::cos(M_PI * (double(t) - 4) / 25)) / 2);
  EXPECT_DOUBLE_EQ(s.rate(29), 1e-4);
}

TEST(TrainSchedule, LinearFallsInALineToTheSmallestRate) {
  Schedule s = schedule(ScheduleKind::Linear);
  EXPECT_DOUBLE_EQ(s.rate(29), 1e-4);
  EXPECT_NEAR(s.rate(10) - s.rate(11), s.rate(20) - s.rate(21), 1e-15);
}

TEST(TrainSchedule, WsdStaysThenFalls) {
  Schedule s = schedule(ScheduleKind::WarmupStableDecay);
  EXPECT_DOUBLE_EQ(s.rate(24), 1e-3);                     // p = 0.8
  EXPECT_NEAR(s.rate(26), 1e-3 * (1 - 0.9 * 0.4), 1e-15); // p = 0.88
  EXPECT_DOUBLE_EQ(s.rate(29), 1e-4);
}

TEST(TrainSchedule, RatesStayDefinedOutsideTheSteps) {
  Schedule s = schedule(ScheduleKind::Cosine);
  EXPECT_DOUBLE_EQ(s.rate(1000), 1e-4);
  s.warmup = 100; // longer than the run
  EXPECT_DOUBLE_EQ(s.rate(29), 1e-3 * 30 / 100);
  s.warmup = 30; // as long as the run
  EXPECT_DOUBLE_EQ(s.rate(29), 1e-3);
  EXPECT_DOUBLE_EQ(s.rate(30), 1e-4);
}

TEST(TrainSchedule, StepParametersAreRoundedOnceFromDouble) {
  Schedule s = schedule(ScheduleKind::Cosine);
  OptimizerSettings optimizer;
  StepParameterArray values = stepParameters(s, optimizer, 2, 1021);
  double rate = 1e-3 * 3 / 5;
  EXPECT_EQ(at(values, StepParameter::InverseCount), float(1.0 / 1021));
  EXPECT_EQ(at(values, StepParameter::LearningRate), float(rate));
  EXPECT_EQ(at(values, StepParameter::DecayFactor), float(1 - rate * 0.1));
  EXPECT_EQ(at(values, StepParameter::StepSize), float(rate / (1 - std::pow(0.9, 3))));
  EXPECT_EQ(at(values, StepParameter::InverseSqrtCorrection2), float(1 / std::sqrt(1 - std::pow(0.95, 3))));
  EXPECT_EQ(at(values, StepParameter::OneMinusBeta2), float(1 - 0.95));
  EXPECT_EQ(at(values, StepParameter::Clip), 1.0f);
  EXPECT_EQ(at(values, StepParameter::LossScale), 1.0f);
  EXPECT_EQ(at(values, StepParameter::WeightDecay), float(0.1));
  EXPECT_EQ(at(values, StepParameter::Momentum), float(0.9));
  EXPECT_EQ(at(values, StepParameter::Nesterov), 0.0f);
  optimizer.nesterov = true;
  EXPECT_EQ(at(stepParameters(s, optimizer, 2, 1021), StepParameter::Nesterov), 1.0f);
}

TEST(TrainSchedule, NoClippingIsInfinity) {
  OptimizerSettings optimizer;
  optimizer.clip = 0;
  auto values = stepParameters(schedule(ScheduleKind::Constant), optimizer, 0, 1);
  EXPECT_EQ(at(values, StepParameter::Clip), std::numeric_limits<float>::infinity());
}

TEST(TrainSchedule, ClippingSaysOfWhatTheNormIs) {
  for (const auto &[text, by, clip] :
       {std::tuple("1", ClipBy::Norm, 1.0), std::tuple("0", ClipBy::Norm, 0.0), std::tuple("1e-2", ClipBy::Norm, 0.01),
        std::tuple("block", ClipBy::Bucket, 1.0), std::tuple("block:0.25", ClipBy::Bucket, 0.25),
        std::tuple("previous", ClipBy::PreviousNorm, 1.0), std::tuple("previous:2", ClipBy::PreviousNorm, 2.0)}) {
    const auto parsed = parseClip(text);
    ASSERT_TRUE(parsed.isOk()) << text;
    EXPECT_EQ(parsed->first, by) << text;
    EXPECT_EQ(parsed->second, clip) << text;
    EXPECT_EQ(*parseClip(clipText(by, clip)), *parsed) << text;
  }
  for (const char *text : {"", "-1", "nan", "inf", "block:", "block:0", "blocks", "previous:-1", "1x", "0x1p2", ":1"})
    EXPECT_FALSE(parseClip(text).isOk()) << text;
}

TEST(TrainSchedule, TheNormOfTheStepBeforeClipsThisOne) {
  OptimizerSettings optimizer;
  optimizer.clip = 0.5;
  const auto parameters = [&](std::optional<float> previous) {
    return stepParameters(Schedule{.steps = 10}, optimizer, 3, 1, 1.0, 0, std::numeric_limits<double>::infinity(),
                          previous);
  };
  const auto clip = uint32_t(StepParameter::Clip), known = uint32_t(StepParameter::KnownScale);
  optimizer.clipBy = ClipBy::Bucket;
  EXPECT_EQ(parameters(2.0F)[clip], 0.5F);
  EXPECT_EQ(parameters(2.0F)[known], 1.0F);
  optimizer.clipBy = ClipBy::PreviousNorm;
  EXPECT_EQ(parameters(2.0F)[clip], std::numeric_limits<float>::infinity());
  EXPECT_EQ(parameters(2.0F)[known], float(0.5 / (2.0 + 1e-6)));
  EXPECT_EQ(parameters(0.25F)[known], 1.0F);
  // A run's first step has none before it.
  EXPECT_EQ(parameters(std::nullopt)[clip], 0.5F);
  EXPECT_EQ(parameters(std::nullopt)[known], 1.0F);
}

TEST(TrainSchedule, TheLossScaleEntersWithTheCount) {
  auto values = stepParameters(schedule(ScheduleKind::Constant), {}, 0, 4, 65536);
  EXPECT_EQ(at(values, StepParameter::InverseCount), 16384.0f);
  EXPECT_EQ(at(values, StepParameter::InverseLossScale), 1.0f / 65536);
}

TEST(TrainSchedule, StochasticRoundingSeesSeedAndUpdate) {
  const auto bits = [](uint64_t t, uint64_t seed, StepParameter which) {
    return std::bit_cast<uint32_t>(stepParameters({}, {}, t, 1, 1, seed)[uint32_t(which)]);
  };
  EXPECT_EQ(bits(7, 3, StepParameter::RandomSeed), 3u);
  EXPECT_EQ(bits(7, 3, StepParameter::RandomStep), 7u);
  EXPECT_NE(bits(7, 3 + (1ull << 40), StepParameter::RandomSeed), 3u); // the upper half counts
}

TEST(TrainSchedule, UnknownNamesAreRefused) {
  EXPECT_TRUE(parseScheduleKind("wsd").isOk());
  EXPECT_EQ(parseScheduleKind("step").status().code(), StatusCode::InvalidArgument);
}

} // namespace
