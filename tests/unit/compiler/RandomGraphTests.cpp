// Random graphs by the whole compiler against the interpreter. tests/long/random-graphs.sh runs many more seeds
// (ZTC_RANDOM_GRAPHS=FIRST:COUNT).
#include "tests/unit/compiler/RandomGraph.h"
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;

namespace {

struct Seeds {
  uint64_t first = 1, count = 6;
};

Seeds seeds() {
  Seeds range;
  if (const char *text = std::getenv("ZTC_RANDOM_GRAPHS"))
    std::sscanf(text, "%lu:%lu", &range.first, &range.count);
  return range;
}

void expectAll(const StepOptions &options) {
  const Seeds range = seeds();
  for (uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    std::string text = randomModel(seed), wrong = compareStep(text, options, seed);
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << text;
  }
}

TEST(RandomGraph, AStepHasTheInterpretersNumbers) {
  expectAll({});
}
TEST(RandomGraph, Zero3AndRecomputationToo) {
  StepOptions options;
  options.zero = 3;
  options.recompute = "layer";
  expectAll(options);
}
TEST(RandomGraph, Bf16ComesNear) {
  StepOptions options;
  options.precision = StoragePrecision::Bf16;
  options.tolerance = 0.3;
  expectAll(options);
}

} // namespace
