// Options that contradict each other, lack a partner or ask for what is not there, each with a message that names them.
#include "runtime/Train/Options.h"
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ztc;
using testing::HasSubstr;

namespace {

RunOptions training() {
  RunOptions o;
  o.plan = "plan.bin";
  o.data = {"tokens.bin"};
  o.steps = 10;
  return o;
}

TEST(TrainOptions, GoodOnesPass) {
  EXPECT_TRUE(checkOptions(training()).isOk());
  RunOptions trial;
  trial.plan = "plan.bin";
  EXPECT_TRUE(checkOptions(trial).isOk());
  RunOptions text = trial;
  text.generate = 10;
  text.prompt = "The ";
  EXPECT_TRUE(checkOptions(text).isOk());
}

struct BadCase {
  const char *name;
  std::function<void(RunOptions &)> spoil;
  const char *message;
};

TEST(TrainOptions, BadOnesAreNamed) {
  const BadCase cases[] = {
      {"steps and epochs", [](RunOptions &o) { o.epochs = 1; }, "--steps and --epochs"},
      {"neither", [](RunOptions &o) { o.steps.reset(); }, "--data needs --steps"},
      {"save-every", [](RunOptions &o) { o.saveEvery = 5; }, "--save-every has no effect without --save"},
      {"keep", [](RunOptions &o) { o.keep = 5; }, "--keep has no effect without --save"},
      {"save-period", [](RunOptions &o) { o.savePeriodSeconds = 5; }, "--save-period has no effect without --save"},
      {"keep-best", [](RunOptions &o) { o.save = "x", o.keepBest = true; }, "--keep-best has no effect without --eval"},
      {"log-every", [](RunOptions &o) { o.logEvery = 5; }, "--log-every has no effect without --log-json or --tensor"},
      {"token-bytes", [](RunOptions &o) { o.tokenBytes = 3; }, "--token-bytes: 2 or 4"},
      {"eval-every", [](RunOptions &o) { o.evalEvery = 5; }, "--eval-every has no effect without --eval-data"},
      {"no-save", [](RunOptions &o) { o.noSave = true, o.save = "x"; }, "--no-save and --save"},
      {"prompt", [](RunOptions &o) { o.prompt = "x"; }, "--prompt has no effect without --generate"},
      {"generate", [](RunOptions &o) { o.generate = 5, o.prompt = "x"; }, "leave --data out"},
      {"shuffle", [](RunOptions &o) { o.data.clear(), o.shuffle = true; }, "--shuffle has no effect without --data"},
      {"warm restart", [](RunOptions &o) { o.resume = "x", o.weights = "y"; }, "--weights has no effect with --resume"},
      {"init", [](RunOptions &o) { o.init = "uniform"; }, "normal:STD"},
      {"ratio", [](RunOptions &o) { o.schedule = ScheduleKind::Constant, o.minLrRatio = 0.1; }, "--schedule=constant"},
      {"zero steps", [](RunOptions &o) { o.steps = 0; }, "--steps: at least 1"},
      {"stop late", [](RunOptions &o) { o.stopAfter = 11; }, "--stop-after"},
      {"gpus and ranks", [](RunOptions &o) { o.gpus = 1, o.ranks = 1; }, "--gpus and --ranks"},
      {"scale", [](RunOptions &o) { o.lossScale = 3; }, "power of two"},
      {"beta", [](RunOptions &o) { o.optimizer.beta2 = 1; }, "--beta2"},
  };
  for (const BadCase &bad : cases) {
    RunOptions o = training();
    bad.spoil(o);
    Status status = checkOptions(o);
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument) << bad.name;
    EXPECT_THAT(status.message(), HasSubstr(bad.message)) << bad.name;
  }
}

TEST(TrainOptions, LossScaleNeedsFp16) {
  RunOptions o = training();
  o.lossScale = 1024;
  plan::Plan plan;
  plan.set_precision("fp32");
  EXPECT_EQ(checkOptionsAgainstPlan(o, plan).code(), StatusCode::InvalidArgument);
  plan.set_precision("fp16");
  EXPECT_TRUE(checkOptionsAgainstPlan(o, plan).isOk());
}

TEST(TrainOptions, GpusAreTakenWhereTheCommandLineSaysSo) {
  RunOptions o = training();
  EXPECT_FALSE(wantsGpus(o));
  o.device = "cpu";
  EXPECT_FALSE(wantsGpus(o));
  o.device = "cuda";
  EXPECT_TRUE(wantsGpus(o));
  o.device.clear();
  o.gpus = 2;
  EXPECT_TRUE(wantsGpus(o));
}

TEST(TrainOptions, TheOutputFolderStandsBesideThePlan) {
  EXPECT_EQ(defaultOutputFolder("a/plan.bin"), "a/plan-out");
  EXPECT_EQ(defaultOutputFolder("a/plan"), "a/plan-out");
}

TEST(TrainOptions, InitIsNormalWithADeviation) {
  EXPECT_EQ(*parseInit("normal:0.02"), 0.02);
  for (const char *bad : {"normal", "normal:", "normal:x", "normal:0.02x", "normal:-1", "0.02"})
    EXPECT_FALSE(parseInit(bad).isOk()) << bad;
}

} // namespace
