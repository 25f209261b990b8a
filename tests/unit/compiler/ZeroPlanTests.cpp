// Plans of the ZeRO stages: forms of slots, bytes on the wire, memory on W ranks, all against the arithmetic.
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Memory/Planner.h"
#include "runtime/Memory/Traffic.h"
#include "tests/unit/compiler/PlanHarness.h"
#include <set>

using namespace ztc;
using namespace ztc::test;
using plan::SizeForm;

namespace {

/// Without kernels, compiled once.
const plan::Plan &planOf(unsigned zero) {
  static const plan::Plan plans[4] = {compilePlan(false, false, 0), compilePlan(false, false, 1),
                                      compilePlan(false, false, 2), compilePlan(false, false, 3)};
  return plans[zero];
}

SizeForm::Kind kindOf(const plan::Plan &plan, uint32_t slot) {
  return plan.slots(static_cast<int>(slot)).size().kind();
}

TEST(ZeroPlan, EveryStageIsValidAndHasNoCopies) {
  for (bool tied : {false, true})
    for (unsigned zero = 0; zero < 4; ++zero) {
      plan::Plan plan = compilePlan(tied, true, zero);
      EXPECT_TRUE(validatePlan(plan).isOk()) << validatePlan(plan).message();
      EXPECT_EQ(plan.remarks_size(), 0);
      std::set<std::string> names;
      for (const plan::Program &program : plan.programs())
        for (const plan::Step &step : program.steps()) {
          EXPECT_FALSE(step.has_copy()) << zero << ": " << step.name();
          EXPECT_FALSE(step.reason().empty()) << step.name();
          EXPECT_TRUE(names.insert(program.name() + step.name()).second) << step.name();
        }
    }
}

TEST(ZeroPlan, KernelsDoNotDependOnTheLengthOfBuckets) {
  const plan::Plan plan = compilePlan(false, true, 3);
  unsigned sums = 0, updates = 0;
  for (const plan::Kernel &kernel : plan.kernels()) {
    sums += kernel.name().rfind("sum_squares", 0) == 0;
    updates += kernel.name().rfind("accumulate", 0) == 0;
  }
  EXPECT_EQ(sums, 2u) << "blocks, then their sum";
  EXPECT_EQ(updates, 2u) << "one that writes, one that adds";
}

TEST(ZeroPlan, FormsFollowTheStage) {
  for (unsigned zero = 0; zero < 4; ++zero) {
    const plan::Plan &plan = planOf(zero);
    for (const plan::Bucket &bucket : plan.buckets()) {
      EXPECT_EQ(kindOf(plan, bucket.parameter_slot()), zero == 3 ? SizeForm::SHARD : SizeForm::FULL);
      EXPECT_EQ(kindOf(plan, bucket.gradient_slot()), zero >= 2 ? SizeForm::SHARD : SizeForm::FULL);
      EXPECT_EQ(kindOf(plan, bucket.states(0).slot()), zero >= 1 ? SizeForm::SHARD : SizeForm::FULL);
      EXPECT_EQ(kindOf(plan, bucket.states(1).slot()), zero >= 1 ? SizeForm::SHARD : SizeForm::FULL);
    }
    for (const plan::Program &program : plan.programs())
      for (const plan::Step &step : program.steps()) {
        if (step.has_collective() && step.collective().kind() == plan::Collective::REDUCE_SCATTER)
          EXPECT_EQ(step.only_last_microstep(), zero <= 1) << step.name();
        if (step.launch().flat())
          EXPECT_EQ(step.launch().flat_range() == plan::Launch::WHOLE,
                    zero == 0 && step.name().find("adamw") != std::string::npos)
              << zero << ": " << step.name();
      }
  }
}

TEST(ZeroPlan, BytesOnTheWireFollowTheFormula) {
  for (unsigned zero = 0; zero < 4; ++zero)
    for (uint32_t world : {2u, 3u, 8u})
      for (uint32_t accumulate : {1u, 4u}) {
        const plan::Plan &plan = planOf(zero);
        uint64_t all = 0, gathered = 0;
        const auto bytes = [&](uint32_t bucket) {
          return (world - 1) * shardElements(plan.buckets(static_cast<int>(bucket)).elements(), world) * 4;
        };
        for (uint32_t b = 0; b < static_cast<uint32_t>(plan.buckets_size()); ++b)
          all += bytes(b);
        for (const plan::Step &step : plan.programs(0).steps())
          if (step.has_collective() && step.collective().kind() == plan::Collective::ALL_GATHER)
            gathered += bytes(step.collective().bucket());
        if (zero == 3)
          EXPECT_GE(gathered, all);
        const uint64_t expected = zero <= 1   ? 2 * all
                                  : zero == 2 ? (accumulate + 1) * all
                                              : accumulate * (all + gathered);
        const SentBytes sent = sentBytes(plan, {world, accumulate, 1});
        EXPECT_EQ(sent.parametersAndGradients(), expected) << zero << " on " << world;
        EXPECT_EQ(sent.allReduce, (world - 1) * 4u);
      }
}

TEST(ZeroPlan, MemoryFollowsTheArithmetic) {
  for (unsigned zero = 0; zero < 4; ++zero)
    for (uint32_t world = 1; world <= 8; ++world)
      for (uint32_t accumulate : {1u, 2u}) {
        const plan::Plan &plan = planOf(zero);
        StatusOr<MemoryPlan> memory = planMemory(plan, {world, accumulate, 2});
        ASSERT_TRUE(memory.isOk()) << memory.status().message();
        uint64_t parameters = 0, moments = 0;
        for (const plan::Bucket &bucket : plan.buckets()) {
          const uint64_t shard = shardElements(bucket.elements(), world) * 4;
          parameters += roundUp(zero == 3 ? shard : shard * world, 256);
          moments += 2 * roundUp(zero >= 1 ? shard : shard * world, 256);
        }
        EXPECT_EQ(memory->byClass[0], parameters) << zero << " on " << world;
        EXPECT_EQ(memory->byClass[3], moments) << zero << " on " << world;
        uint64_t sum = 0;
        for (uint64_t bytes : memory->byClass)
          sum += bytes;
        EXPECT_EQ(sum, memory->arenaBytes);
        if (world == 1) {
          EXPECT_EQ(memory->byClass[1], 0u) << "at one rank a gathered bucket is the parameter slot";
          EXPECT_EQ(memory->byClass[6], 0u) << "there is nobody to receive from";
        }
      }
}

TEST(ZeroPlan, PrefetchNeedsNoSecondGatherMore) {
  auto gathers = [](const plan::Plan &plan) {
    unsigned count = 0;
    for (const plan::Step &step : plan.programs(0).steps())
      count += step.has_collective() && step.collective().kind() == plan::Collective::ALL_GATHER;
    return count;
  };
  EXPECT_EQ(gathers(compilePlan(true, false, 3, 0)), gathers(compilePlan(true, false, 3, 2)));
}

} // namespace
