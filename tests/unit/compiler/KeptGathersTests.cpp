// Which gathered parameters an update gathers for the next step, and which are kept: the plans stay valid, and the
// budget holds to the byte.
#include "compiler/Analysis/KeptGathers.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Memory/Traffic.h"
#include "tests/unit/compiler/PlanHarness.h"

using namespace ztc;
using namespace ztc::test;

namespace {

constexpr PlanShape kTwo{2, 1, 1}, kTwoOfThree{2, 3, 1};

const plan::Plan &zero3Plan() {
  static const plan::Plan plan = compilePlan(/*tied=*/false, /*withKernels=*/true, 3);
  return plan;
}

unsigned gathersOf(const plan::Plan &plan, const std::string &program) {
  unsigned count = 0;
  for (const plan::Program &candidate : plan.programs())
    if (candidate.name() == program)
      for (const plan::Step &step : candidate.steps())
        count += step.has_collective() && step.collective().kind() == plan::Collective::ALL_GATHER;
  return count;
}

uint64_t peakOf(const plan::Plan &plan, const PlanShape &shape) {
  return planMemory(plan, shape)->arenaBytes;
}

TEST(KeptGathers, AnUpdateGathersWhatTheNextStepNeedsFirst) {
  plan::Plan plan = zero3Plan();
  ASSERT_EQ(gathersOf(plan, "update"), 0u);
  gatherEarly(plan);
  EXPECT_TRUE(validatePlan(plan).isOk()) << validatePlan(plan).message();
  EXPECT_EQ(gatherLives(plan, kTwo).early, 2u) << "the embedding and the first block";
  EXPECT_EQ(gathersOf(plan, "update"), 2u);
  EXPECT_EQ(gathersOf(plan, "microstep"), gathersOf(zero3Plan(), "microstep")) << "for where no update came before";
  for (const PlanShape &shape : {kTwo, kTwoOfThree})
    EXPECT_EQ(sentBytes(plan, shape).allGather, sentBytes(zero3Plan(), shape).allGather) << "another place, not more";
  // Each after its own update, so that those of the others hide it.
  for (const plan::Program &program : plan.programs()) {
    if (program.name() != "update")
      continue;
    int lastLaunch = -1, firstGather = -1;
    for (int i = 0; i < program.steps_size(); ++i) {
      lastLaunch = program.steps(i).has_launch() ? i : lastLaunch;
      if (program.steps(i).has_collective() && program.steps(i).collective().kind() == plan::Collective::ALL_GATHER &&
          firstGather < 0)
        firstGather = i;
    }
    EXPECT_LT(firstGather, lastLaunch);
  }
  plan::Plan twice = plan;
  gatherEarly(twice);
  EXPECT_EQ(twice.SerializeAsString(), plan.SerializeAsString());
}

TEST(KeptGathers, OtherStagesStayAsTheyAre) {
  for (unsigned zero : {0u, 1u, 2u}) {
    const plan::Plan before = compilePlan(false, false, zero);
    plan::Plan plan = before;
    gatherEarly(plan);
    ASSERT_TRUE(keepGathers(plan, {kTwoOfThree}, {}).isOk());
    EXPECT_EQ(plan.SerializeAsString(), before.SerializeAsString());
    EXPECT_EQ(gatherLives(plan, kTwo).gathered, 0u);
  }
}

TEST(KeptGathers, EachBucketIsGatheredOnceAStep) {
  for (bool early : {false, true}) {
    plan::Plan plan = zero3Plan();
    if (early)
      gatherEarly(plan);
    ASSERT_TRUE(keepGathers(plan, {kTwoOfThree}, {}).isOk());
    EXPECT_TRUE(validatePlan(plan).isOk()) << validatePlan(plan).message();
    const GatherLives lives = gatherLives(plan, kTwo);
    EXPECT_EQ(lives.kept, lives.gathered);
    EXPECT_EQ(gathersOf(plan, "microstep"), lives.gathered);
    EXPECT_EQ(sentBytes(plan, kTwoOfThree).allGather, sentBytes(plan, kTwo).allGather) << "whatever M is";
    EXPECT_GT(peakOf(plan, kTwoOfThree), peakOf(zero3Plan(), kTwoOfThree));
    EXPECT_EQ(peakOf(plan, {1, 3, 1}), peakOf(zero3Plan(), {1, 3, 1})) << "at one rank they are the parameters";
    EXPECT_EQ(gatherLives(plan, {1, 3, 1}).kept, 0u);
  }
}

TEST(KeptGathers, ABudgetKeepsAsManyAsFit) {
  plan::Plan all = zero3Plan();
  ASSERT_TRUE(keepGathers(all, {kTwoOfThree}, {}).isOk());
  const uint64_t least = peakOf(zero3Plan(), kTwoOfThree), most = peakOf(all, kTwoOfThree);
  unsigned before = 0;
  for (uint64_t budget = least - 256; budget <= most; budget += 256) {
    plan::Plan plan = zero3Plan();
    ASSERT_TRUE(keepGathers(plan, {kTwoOfThree}, budget).isOk());
    const unsigned kept = gatherLives(plan, kTwo).kept;
    EXPECT_GE(kept, before);
    EXPECT_TRUE(kept == 0 || peakOf(plan, kTwoOfThree) <= budget) << budget;
    before = kept;
  }
  EXPECT_EQ(before, gatherLives(all, kTwo).kept);
  plan::Plan over = zero3Plan();
  ASSERT_TRUE(keepGathers(over, {kTwoOfThree}, least - 256).isOk());
  EXPECT_EQ(over.SerializeAsString(), zero3Plan().SerializeAsString()) << "what is over already keeps nothing";
}

TEST(KeptGathers, ReportsSayWhatIsKept) {
  plan::Plan plan = zero3Plan();
  EXPECT_EQ(describeGathers(plan, kTwo), "");
  gatherEarly(plan);
  EXPECT_TRUE(llvm::StringRef(describeGathers(plan, kTwo)).contains("2 gathered by the update before ("));
  ASSERT_TRUE(keepGathers(plan, {kTwoOfThree}, {}).isOk());
  EXPECT_TRUE(llvm::StringRef(describeGathers(plan, kTwo)).contains(" kept over micro-steps and to the backward ("));
  EXPECT_EQ(describeGathers(plan, {1, 1, 1}), "");
}

} // namespace
