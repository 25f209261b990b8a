// The choice of the next token: the likeliest, and shares of many choices.
#include "runtime/Train/Sampling.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <vector>

using namespace ztc;

namespace {

const std::vector<float> kLogits{0, 1, 2, 2, -1};

std::map<int32_t, double> shares(const Sampling &sampling, const std::vector<float> &logits = kLogits) {
  constexpr int kChoices = 20000;
  std::map<int32_t, double> out;
  for (uint64_t place = 0; place < kChoices; ++place)
    out[chooseToken(logits, sampling, 0, place)] += 1.0 / kChoices;
  return out;
}

} // namespace

TEST(SamplingTest, WithoutTemperatureTheLikeliest) {
  EXPECT_EQ(chooseToken(kLogits, {}, 0, 0), 2) << "the lowest of equals";
  const float none = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(chooseToken(std::vector<float>{none, -3, -2, none}, {}, 0, 0), 2) << "what is not a number is not likely";
}

TEST(SamplingTest, SharesAreThoseOfTheDistribution) {
  for (const double temperature : {0.5, 1.0, 2.0}) {
    double sum = 0;
    for (const float logit : kLogits)
      sum += std::exp(logit / temperature);
    const auto found = shares({.temperature = temperature});
    for (size_t i = 0; i < kLogits.size(); ++i) {
      const auto share = found.find(int32_t(i));
      EXPECT_NEAR(share == found.end() ? 0 : share->second, std::exp(kLogits[i] / temperature) / sum, 0.015) << i;
    }
  }
}

TEST(SamplingTest, OnlyTheLikeliest) {
  const auto two = shares({.temperature = 1, .topK = 2});
  EXPECT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(2), 0.5, 0.02);
  EXPECT_EQ(shares({.temperature = 1, .topK = 1}), (std::map<int32_t, double>{{2, shares({}).at(2)}}));
  // Shares are 0.05, 0.14, 0.39, 0.39, 0.02: two have 0.78, three 0.93.
  EXPECT_EQ(shares({.temperature = 1, .topP = 0.7}).size(), 2u);
  EXPECT_EQ(shares({.temperature = 1, .topP = 0.8}).size(), 3u);
  EXPECT_EQ(shares({.temperature = 1, .topP = 1e-9}).size(), 1u) << "at least one";
  EXPECT_EQ(shares({.temperature = 1, .topK = 2, .topP = 0.5}).size(), 1u) << "shares are those among the K";
}

TEST(SamplingTest, SeedsTellChoicesApart) {
  int same = 0, other = 0;
  for (uint64_t place = 0; place < 100; ++place) {
    same += chooseToken(kLogits, {.temperature = 1, .seed = 3}, 1, place) ==
            chooseToken(kLogits, {.temperature = 1, .seed = 3}, 1, place);
    other += chooseToken(kLogits, {.temperature = 1, .seed = 3}, 1, place) !=
             chooseToken(kLogits, {.temperature = 1, .seed = 4}, 1, place);
  }
  EXPECT_EQ(same, 100);
  EXPECT_GT(other, 20);
}
