// Options that contradict each other, lack a partner or ask for what is not there, each with a message that names them.
#include "runtime/Train/Options.h"
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tuple>

using namespace ztc;
using testing::ElementsAre;
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
      {"save-period", [](RunOptions &o) { o.savePeriodSeconds = 5; }, "--save-period has no effect without --save"},
      {"keep-best", [](RunOptions &o) { o.save = "x", o.keepBest = true; }, "--keep-best has no effect without --eval"},
      {"token-bytes", [](RunOptions &o) { o.tokenBytes = 3; }, "--token-bytes: 2 or 4"},
      {"eval-every", [](RunOptions &o) { o.evalEvery = 5; }, "--eval-every has no effect without --eval-data"},
      {"no-save", [](RunOptions &o) { o.noSave = true, o.save = "x"; }, "--no-save and --save"},
      {"prompt", [](RunOptions &o) { o.prompt = "x"; }, "--prompt has no effect without --generate"},
      {"generate", [](RunOptions &o) { o.generate = 5, o.prompt = "x"; }, "leave --data out"},
      {"trial that is to be saved", [](RunOptions &o) { o.data.clear(), o.save = "x"; },
       "--save has no effect without"},
      {"top-k", [](RunOptions &o) { o = RunOptions(), o.generate = 5, o.prompt = "x", o.topK = 3; },
       "--top-k has no effect without"},
      {"init", [](RunOptions &o) { o.init = "uniform"; }, "normal:STD"},
      {"zero steps", [](RunOptions &o) { o.steps = 0; }, "--steps: at least 1"},
      {"stop late", [](RunOptions &o) { o.stopAfter = 11; }, "--stop-after"},
      {"gpus and ranks", [](RunOptions &o) { o.gpus = 1, o.ranks = 1; }, "--gpus and --ranks"},
      {"scale", [](RunOptions &o) { o.lossScale = 3; }, "power of two"},
      {"beta", [](RunOptions &o) { o.optimizer.beta2 = 1; }, "--beta2"},
      {"momentum", [](RunOptions &o) { o.optimizer.momentum = 1; }, "--momentum"},
  };
  for (const BadCase &bad : cases) {
    RunOptions o = training();
    bad.spoil(o);
    Status status = checkOptions(o);
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument) << bad.name;
    EXPECT_THAT(status.message(), HasSubstr(bad.message)) << bad.name;
  }
}

TEST(TrainOptions, RatesFollowWhatIsTrained) {
  plan::Plan fresh, loaded, adapter;
  loaded.add_parameters()->mutable_source()->set_path("model.safetensors");
  adapter = loaded;
  adapter.set_adapter_config("{}");
  const auto rates = [](RunOptions options, const plan::Plan &plan) {
    const RunOptions with = withDefaults(std::move(options), plan);
    return std::tuple(with.learningRate, with.optimizer.weightDecay, warmupSteps(with, 100));
  };
  EXPECT_EQ(rates(training(), fresh), std::tuple(3e-4, 0.1, 0u));
  EXPECT_EQ(rates(training(), loaded), std::tuple(2e-5, 0.0, 3u));
  EXPECT_EQ(rates(training(), adapter), std::tuple(2e-4, 0.0, 3u));
  RunOptions named = training(), random = training(), given = training();
  named.weights = "model";
  EXPECT_EQ(rates(named, fresh), std::tuple(2e-5, 0.0, 3u));
  random.init = "normal:0.02";
  EXPECT_EQ(rates(random, loaded), std::tuple(3e-4, 0.1, 0u));
  given.learningRate = 1, given.optimizer.weightDecay = 2, given.warmup = 7;
  given.given = {"--lr", "--weight-decay", "--warmup"};
  EXPECT_EQ(rates(given, adapter), std::tuple(1.0, 2.0, 7u));
}

TEST(TrainOptions, AResumedRunKeepsItsRates) {
  const std::map<std::string, std::string> settings{{"--lr", "0.0003"}, {"--weight-decay", "0.1"}, {"--warmup", "5"}};
  RunOptions options = training();
  keepRates(options, settings);
  EXPECT_EQ(options.warmup, 0u) << "nobody was asked";
  options.given = {"--data", "--lr"};
  options.learningRate = 1, options.warmupShare = 0.03;
  keepRates(options, settings);
  EXPECT_EQ(options.learningRate, 1);
  EXPECT_EQ(options.optimizer.weightDecay, 0.1);
  EXPECT_EQ(warmupSteps(options, 1000), 5u);
  keepRates(options, {{"--warmup", "many"}});
  EXPECT_EQ(options.warmup, 5u);
}

TEST(TrainOptions, OptimizersHaveDefaultsAndOptionsOfTheirOwn) {
  const auto planOf = [](const char *optimizer) {
    plan::Plan plan;
    plan.set_precision("fp32");
    if (*optimizer)
      (*plan.mutable_options())["optimizer"] = optimizer;
    return plan;
  };
  EXPECT_EQ(optimizerName(planOf("")), "adamw");
  const RunOptions silent = training();
  EXPECT_EQ(withDefaults(silent, planOf("")).optimizer.beta2, 0.95);
  EXPECT_EQ(withDefaults(silent, planOf("lion")).optimizer.beta2, 0.99);
  EXPECT_EQ(withDefaults(silent, planOf("lion")).optimizer.weightDecay, 0.1);
  EXPECT_EQ(withDefaults(silent, planOf("sgd")).optimizer.weightDecay, 0.0);
  RunOptions given = training();
  given.optimizer.beta2 = 0.5, given.optimizer.weightDecay = 0.25;
  given.given = {"--beta2", "--weight-decay"};
  EXPECT_EQ(withDefaults(given, planOf("lion")).optimizer.beta2, 0.5);
  EXPECT_EQ(withDefaults(given, planOf("sgd")).optimizer.weightDecay, 0.25);

  struct Case {
    const char *optimizer, *option;
    bool isUnused;
  };
  for (const Case &c : {Case{"", "--beta2", false}, Case{"", "--momentum", true}, Case{"lion", "--beta1", false},
                        Case{"lion", "--epsilon", true}, Case{"sgd", "--nesterov", false}, Case{"sgd", "--beta1", true},
                        Case{"sgd", "--weight-decay", false}, Case{"of a plugin", "--momentum", false}}) {
    RunOptions o = training();
    o.given = {c.option};
    const std::vector<std::string> unused = unusedOptions(o, planOf(c.optimizer));
    EXPECT_EQ(!unused.empty(), c.isUnused) << c.optimizer << " " << c.option;
    if (c.isUnused && !unused.empty())
      EXPECT_THAT(unused.front(), HasSubstr(std::string(c.option) + " has no effect: plan.bin was compiled with"));
  }
}

TEST(TrainOptions, HarmlessOnesAreNotes) {
  RunOptions trial, text, evaluation;
  trial.plan = text.plan = evaluation.plan = "plan.bin";
  evaluation.evalOnly = true;
  evaluation.evalData = {"x"};
  text.generate = 5;
  text.prompt = "x";
  struct Case {
    RunOptions from;
    std::function<void(RunOptions &)> add;
    const char *note;
  };
  const Case cases[] = {
      {trial, [](RunOptions &o) { o.shuffle = true; }, "--shuffle has no effect without --data"},
      {trial, [](RunOptions &o) { o.tokenizer = "bytes"; }, "--tokenizer has no effect without --data, --eval-only"},
      {trial, [](RunOptions &o) { o.tokenBytes = 4; }, "--token-bytes has no effect without --data"},
      {trial, [](RunOptions &o) { o.exportDtype = "fp32"; }, "--export-dtype has no effect without an export"},
      {trial, [](RunOptions &o) { o.noSave = true; }, nullptr},
      {trial, [](RunOptions &o) { o.stopAfter = 3; }, nullptr}, // it does end then
      {training(), [](RunOptions &o) { o.keep = 5; }, "--keep has no effect without --save"},
      {training(), [](RunOptions &o) { o.logEvery = 5; }, "--log-every has no effect without --log-json or --tensor"},
      {training(), [](RunOptions &o) { o.temperature = 1; }, "--temperature has no effect without --generate"},
      {training(), [](RunOptions &o) { o.topK = 5; }, "--top-k has no effect without --generate"},
      {training(), [](RunOptions &o) { o.topP = 0.5; }, "--top-p has no effect without --generate"},
      {training(), [](RunOptions &o) { o.shardBytes = 5; }, nullptr},
      {training(), [](RunOptions &o) { o.save = "x", o.shardBytes = 5; },
       "--shard-size has no effect without an export"},
      {training(), [](RunOptions &o) { o.noSave = true, o.hfConfig = "x"; },
       "--hf-config has no effect without --export"},
      {training(), [](RunOptions &o) { o.resume = "x", o.weights = "y"; }, "--weights has no effect with --resume"},
      {training(), [](RunOptions &o) { o.resume = "x", o.init = "normal:1"; }, "--init has no effect with --resume"},
      {training(), [](RunOptions &o) { o.schedule = ScheduleKind::Constant, o.minLrRatio = 0.1; }, "schedule=constant"},
      {training(), [](RunOptions &o) { o.lossScale = 1024; }, "--loss-scale has no effect: plan.bin was compiled with"},
      {text, [](RunOptions &o) { o.given = {"--log-json"}; }, "--log-json has no effect with --generate"},
      {text, [](RunOptions &o) { o.given = {"--tensorboard"}; }, "--tensorboard has no effect with --generate"},
      {text, [](RunOptions &o) { o.given = {"--dump-gradients"}; }, "--dump-gradients has no effect with --generate"},
      {text, [](RunOptions &o) { o.given = {"--profile"}; }, "--profile has no effect with --generate"},
      {text, [](RunOptions &o) { o.given = {"--trace"}; }, "--trace has no effect with --generate"},
      {text, [](RunOptions &o) { o.given = {"--lr"}; }, "--lr has no effect with --generate"},
      {text, [](RunOptions &o) { o.given = {"--seed"}; }, nullptr},
      {evaluation, [](RunOptions &o) { o.given = {"--skip-spikes"}; }, "--skip-spikes has no effect with --eval-only"},
      {evaluation, [](RunOptions &o) { o.given = {"--stop-after"}; }, "--stop-after has no effect with --eval-only"},
      {evaluation, [](RunOptions &o) { o.given = {"--log-json"}; }, nullptr},
      {training(), [](RunOptions &o) { o.given = {"--lr"}; }, nullptr},
      {training(), [](RunOptions &o) { o.evalData = {"x"}, o.evalEvery = 11; }, "evaluates at its end only"},
      {training(), [](RunOptions &o) { o.evalData = {"x"}, o.evalEvery = 1, o.patience = *o.steps; },
       "--patience=10 has no effect: a run of 10 steps is evaluated 10 times"},
      {training(), [](RunOptions &o) { o.evalData = {"x"}, o.evalEvery = 1, o.patience = 2; }, nullptr},
      {training(), [](RunOptions &o) { o.save = "x", o.saveEvery = 10; }, nullptr},
      {training(), [](RunOptions &o) { o.save = "x", o.saveEvery = 100; }, "saves at its end only"},
      {training(), [](RunOptions &o) { o.sampleEvery = 11, o.samplePrompts = {"x"}; }, "samples come at its end only"},
      {training(), [](RunOptions &o) { o.warmup = 11; }, "--warmup=11 is longer than the run of 10 steps"},
      {training(), [](RunOptions &o) { o.warmup = 10; }, nullptr},
      {training(), [](RunOptions &o) { o.warmupShare = 0.03; }, nullptr},
  };
  plan::Plan plan;
  plan.set_precision("fp32");
  for (const Case &c : cases) {
    RunOptions o = c.from;
    EXPECT_TRUE(unusedOptions(o, plan).empty());
    c.add(o);
    EXPECT_TRUE(checkOptions(o).isOk()) << checkOptions(o).message();
    if (c.note)
      EXPECT_THAT(unusedOptions(o, plan), ElementsAre(HasSubstr(c.note)));
    else
      EXPECT_TRUE(unusedOptions(o, plan).empty());
  }
  RunOptions scaled = training();
  scaled.lossScale = 1024;
  plan.set_precision("fp16");
  EXPECT_TRUE(unusedOptions(scaled, plan).empty());
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

TEST(TrainOptions, WarmupIsStepsOrAShareOfThem) {
  RunOptions o;
  o.warmup = 7;
  EXPECT_EQ(warmupSteps(o, 1000), 7u);
  o.warmupShare = 0.03;
  EXPECT_EQ(warmupSteps(o, 1000), 30u);
  EXPECT_EQ(warmupSteps(o, 10), 0u);
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
