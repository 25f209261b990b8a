// Weights that no file has: as the text of a plan's options says, and what a bad text is told.
#include "TinyRun.h"
#include "runtime/Checkpoint/Weights.h"
#include "runtime/Core/Random.h"
#include "runtime/Format/FreshValues.h"
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

TEST(Weights, FreshValuesOfAModel) {
  TinyRun run;
  run.plan.mutable_parameters(0)->set_name("layers.0.conv1d.weight"); // (4, 6)
  run.plan.mutable_parameters(1)->set_name("layers.0.A_log");         // (6)
  run.plan.mutable_parameters(2)->set_name("layers.0.dt_bias");       // (5)
  const auto load = [&](const std::string &text) {
    (*run.plan.mutable_options())[std::string(kFreshValues)] = text;
    ASSERT_OK(loadWeights(run.context(), {.initDeviation = 0.02, .seed = 9}));
  };
  load("A_log=log-count;dt_bias=step(0.001,0.1,0.02);conv1d.weight=uniform(-0.5,1.5)");
  const std::vector<float> rates = run.values("layers.0.A_log"), taps = run.values("layers.0.conv1d.weight");
  for (size_t i = 0; i < rates.size(); ++i)
    EXPECT_FLOAT_EQ(rates[i], std::log(float(i + 1)));
  for (float bias : run.values("layers.0.dt_bias")) {
    const double step = std::log1p(std::exp(double(bias)));
    EXPECT_TRUE(step > 0.0199 && step < 0.1001) << step;
  }
  std::vector<float> drawn(taps.size());
  fillUniform(drawn.data(), drawn.size(), 1, 9, hashName("layers.0.conv1d.weight"), 0);
  for (size_t i = 0; i < taps.size(); ++i)
    EXPECT_FLOAT_EQ(taps[i], 0.5f + drawn[i]) << "from (seed, name, index)";

  load("A_log=constant(7);A_log=log-uniform(2,3);log=constant(8)"); // the last that is whole parts of a name
  for (float rate : run.values("layers.0.A_log"))
    EXPECT_TRUE(std::exp(rate) > 1.99 && std::exp(rate) < 3.01) << rate;
  EXPECT_EQ(run.values("layers.0.dt_bias"), std::vector<float>(5, 0.0f)) << "as any bias";
  load("conv1d.weight=log-count"); // along the last dimension
  EXPECT_EQ(run.values("layers.0.conv1d.weight")[5], std::log(6.0f));
  EXPECT_EQ(run.values("layers.0.conv1d.weight")[7], std::log(2.0f));
  load("A_log=log-uniform(0,0)"); // 0 has no logarithm
  EXPECT_TRUE(std::isfinite(run.values("layers.0.A_log")[0]));
  load("A_log=decay(0.81,0.998)");
  for (float before : run.values("layers.0.A_log")) {
    const double decay = std::exp(-std::log1p(std::exp(double(before))));
    EXPECT_TRUE(decay * decay > 0.809 && decay * decay < 0.999) << before;
  }
  load("A_log=normal(3)");
  EXPECT_GT(std::abs(run.values("layers.0.A_log")[0] - run.values("layers.0.A_log")[1]), 0.01f);

  for (const char *text :
       {"A_log", "=constant(1)", "A_log=log", "A_log=constant", "A_log=constant(x)", "A_log=constant(1",
        "A_log=uniform(1)", "A_log=uniform(1 2)", "A_log=step(0,1,1)", "A_log=log-uniform(-1,1)", "A_log=constant(inf)",
        "A_log=normal(-1)", "A_log=decay(0,0.5)", "A_log=decay(0.5,1)"}) {
    (*run.plan.mutable_options())[std::string(kFreshValues)] = text;
    const std::string said = checkWeights(run.plan, {.initDeviation = 0.02}).message();
    EXPECT_THAT(said, HasSubstr("the plan's fresh-values: '")) << text;
    EXPECT_THAT(said, HasSubstr("compile the plan again"));
  }
  const std::string both = "A_log=log-uniform(0.01,16);dt_bias=step(0.001,0.1,0.0001);D=constant(1);"
                           "gate_weight=normal(0.02);recurrent_param=decay(0.81,0.998)";
  EXPECT_EQ(printFreshValues(*parseFreshValues(both)), both);
  EXPECT_EQ(printFreshValues({}), "");
}

} // namespace
