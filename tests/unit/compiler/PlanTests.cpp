// From IR to a plan: what the plan says, and that a memory report needs no code generation.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Memory/Planner.h"
#include "tests/unit/compiler/PlanHarness.h"
#include <set>

using namespace mlir;
using namespace ztc;
using namespace ztc::test;

namespace {

/// The whole plan, compiled once.
const plan::Plan &compiled(bool tied) {
  static const plan::Plan plans[2] = {compilePlan(false, true), compilePlan(true, true)};
  return plans[tied];
}

const plan::Program &program(const plan::Plan &plan, StringRef name) {
  for (const plan::Program &candidate : plan.programs())
    if (candidate.name() == name)
      return candidate;
  ADD_FAILURE() << "no program " << name.str();
  return plan.programs(0);
}

TEST(Plan, HasEverythingARunNeeds) {
  for (bool tied : {false, true}) {
    const plan::Plan &plan = compiled(tied);
    ASSERT_TRUE(validatePlan(plan).isOk()) << validatePlan(plan).message();
    EXPECT_EQ(plan.model().name(), "small");
    EXPECT_EQ(plan.model().parameters(), tied ? 68u : 96u);
    EXPECT_GT(plan.model().flops_per_token(), 0);
    ASSERT_EQ(plan.programs_size(), 5);
    EXPECT_EQ(plan.programs(4).name(), "transfer");
    EXPECT_EQ(plan.images_size(), 1);
    const plan::Bindings &bindings = plan.bindings();
    for (uint32_t slot :
         {bindings.tokens(), bindings.targets(), bindings.step_parameters(), bindings.loss(), bindings.eval_loss(),
          bindings.gradient_norm(), bindings.finite(), bindings.position(), bindings.logits(), bindings.staging()})
      EXPECT_NE(slot, kAbsent);
    for (const plan::Parameter &parameter : plan.parameters())
      EXPECT_EQ(parameter.decayed(), parameter.shape_size() == 2) << parameter.name();
  }
}

TEST(Plan, StepsHaveNamesOfTheirOwnAndNoCopies) {
  const plan::Plan &plan = compiled(true);
  for (const plan::Program &program : plan.programs()) {
    std::set<std::string> names;
    for (const plan::Step &step : program.steps()) {
      EXPECT_TRUE(names.insert(step.name()).second) << program.name() << ": " << step.name();
      EXPECT_FALSE(step.has_copy()) << step.name();
      EXPECT_FALSE(step.reason().empty()) << step.name();
    }
  }
  EXPECT_EQ(plan.remarks_size(), 0);
}

TEST(Plan, ATiedGradientIsWrittenByTheHeadAndAddedToByTheEmbedding) {
  const plan::Plan &plan = compiled(true);
  bool written = false, added = false;
  for (const plan::Step &step : program(plan, "microstep").steps()) {
    if (step.has_linear_cross_entropy()) {
      EXPECT_EQ(step.linear_cross_entropy().accumulate(), plan::ADD_UNLESS_FIRST);
      EXPECT_EQ(step.linear_cross_entropy().loss_accumulate(), plan::ADD_UNLESS_FIRST);
      EXPECT_EQ(step.operands(7).slot(), plan.buckets(0).gradient_slot());
      written = true;
    }
    if (step.has_scatter_add()) {
      EXPECT_TRUE(written);
      EXPECT_EQ(step.scatter_add().accumulate(), plan::ADD);
      EXPECT_EQ(step.operands(2).slot(), plan.buckets(0).gradient_slot());
      added = true;
    }
  }
  EXPECT_TRUE(added);
}

TEST(Plan, GapsBetweenParametersAreZeroed) {
  // In the block: q and k of 16 elements, a norm of 4 at 32, the other one at 48.
  const plan::Plan &plan = compiled(false);
  unsigned fills = 0;
  for (const plan::Step &step : program(plan, "microstep").steps())
    if (step.has_fill()) {
      ++fills;
      EXPECT_EQ(step.operands(0).slot(), plan.buckets(1).gradient_slot());
      EXPECT_EQ(step.operands(0).offset(), 36u * 4);
      EXPECT_EQ(step.operands(0).bytes(), 12u * 4);
    }
  EXPECT_EQ(fills, 1u);
}

TEST(Plan, MemoryReportNeedsNoCodeGeneration) {
  const plan::Plan &full = compiled(false);
  plan::Plan report = compilePlan(false, false);
  EXPECT_EQ(report.kernels_size(), 0);
  for (uint32_t accumulate : {1u, 4u}) {
    auto a = planMemory(full, {1, accumulate, 2}), b = planMemory(report, {1, accumulate, 2});
    ASSERT_TRUE(a.isOk() && b.isOk());
    EXPECT_EQ(a->arenaBytes, b->arenaBytes);
    EXPECT_EQ(a->byClass, b->byClass);
  }
}

TEST(Plan, UpdateWorksInPlace) {
  const plan::Plan &plan = compiled(false);
  std::set<uint32_t> allowed;
  for (const plan::Bucket &bucket : plan.buckets()) {
    allowed.insert({bucket.parameter_slot(), bucket.gradient_slot()});
    for (const plan::Bucket::State &state : bucket.states())
      allowed.insert(state.slot());
  }
  unsigned flat = 0;
  for (const plan::Step &step : program(plan, "update").steps())
    if (step.launch().flat()) {
      ++flat;
      for (const plan::Operand &operand : step.operands())
        if (plan.slots(int(operand.slot())).size().kind() == plan::SizeForm::FULL)
          EXPECT_TRUE(allowed.count(operand.slot())) << step.name();
    }
  EXPECT_GE(flat, 2u * unsigned(plan.buckets_size())) << "a norm and an update per bucket";
}

} // namespace
