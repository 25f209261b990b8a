// Gradients in 2 bytes on the wire: the validator against plans broken one fact at a time, memory and traffic.
#include "ShardedPlans.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Memory/Planner.h"
#include "runtime/Memory/Traffic.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

/// The same bucket under ZeRO-1 with bf16 on the wire: the accumulator is rounded in the last micro-step, and what is
/// reduced and read by the update is the narrow one.
enum NarrowSlot : uint32_t { Wide, Wire, NarrowReceive, Weights, Remainder, First, Second };

plan::Plan narrowPlan() {
  plan::Plan plan = shardedPlan();
  plan.clear_slots();
  plan.clear_programs();
  using F = plan::SizeForm;
  const auto add = [&](const char *name, plan::SlotClass slotClass, F::Kind kind, plan::DataType type,
                       uint64_t elements) {
    const uint32_t slot =
        addForm(plan, name, slotClass, kind, elements, slotClass == plan::PARAMETERS || slotClass == plan::OPTIMIZER);
    plan.mutable_slots(static_cast<int>(slot))->set_type(type);
    plan.mutable_slots(static_cast<int>(slot))->mutable_size()->set_element_bytes(uint32_t(dataTypeBytes(type)));
  };
  add("wide", plan::GRADIENTS, F::FULL, plan::F32, kElements);
  add("wire", plan::GRADIENTS, F::FULL, plan::BF16, kElements);
  add("receive", plan::COMMUNICATION, F::FULL, plan::BF16, 64);
  add("weights", plan::PARAMETERS, F::FULL, plan::BF16, kElements);
  add("remainder", plan::OPTIMIZER, F::SHARD, plan::I16, kElements);
  add("exp_avg", plan::OPTIMIZER, F::SHARD, plan::F32, kElements);
  add("exp_avg_sq", plan::OPTIMIZER, F::SHARD, plan::F32, kElements);
  plan.mutable_slots(Wide)->set_accumulator(true);
  plan.mutable_slots(Wire)->set_same_as_if_accumulating(Wide + 1);
  plan.mutable_slots(NarrowReceive)->mutable_size()->set_only_if_several_ranks(true);
  plan::Bucket &bucket = *plan.mutable_buckets(0);
  bucket.set_parameter_slot(Weights), bucket.set_gradient_slot(Wire), bucket.set_master_slot(Remainder);
  bucket.mutable_states(0)->set_slot(First), bucket.mutable_states(1)->set_slot(Second);
  plan::Program &microstep = *plan.add_programs();
  microstep.set_name("microstep");
  plan::Step &fill = addStep(microstep, "fill", 0);
  fill.mutable_fill();
  addOperand(fill, Wide, plan::Operand::READ_WRITE);
  plan::Step &round = addStep(microstep, "round", 0);
  round.set_only_last_microstep(true);
  round.mutable_narrow()->set_from(plan::F32);
  round.mutable_narrow()->set_to(plan::BF16);
  addOperand(round, Wide, plan::Operand::READ);
  addOperand(round, Wire, plan::Operand::WRITE);
  addCollective(microstep, "reduce", plan::Collective::REDUCE_SCATTER, 0, 0, {Wire, NarrowReceive})
      .mutable_collective()
      ->set_type(plan::BF16);
  addDone(microstep, "reduce", 1, {Wire, NarrowReceive});
  for (plan::Step &step : *microstep.mutable_steps())
    step.set_only_last_microstep(step.name() != "fill");
  plan::Program &update = *plan.add_programs();
  update.set_name("update");
  plan::Step &adamw = addStep(update, "adamw", 0);
  adamw.mutable_launch()->set_flat(true);
  adamw.mutable_launch()->set_flat_block(4096);
  for (uint32_t slot : {Weights, Remainder, Wire, First, Second}) {
    addOperand(adamw, slot, slot == Wire ? plan::Operand::READ : plan::Operand::READ_WRITE);
    adamw.mutable_operands()->rbegin()->set_own_shard(slot == Weights || slot == Wire);
  }
  plan::Step &gather = addCollective(update, "gather", plan::Collective::ALL_GATHER, 2, 1, {Weights, Weights});
  gather.mutable_collective()->set_type(plan::BF16);
  gather.mutable_operands(0)->set_own_shard(true);
  addDone(update, "gather", 3, {Weights});
  recordKernelSignatures(plan);
  return plan;
}

TEST(NarrowPlan, EachFactIsChecked) {
  ASSERT_OK(validatePlan(narrowPlan()));
  const auto wire = [](plan::Plan &p) { return p.mutable_slots(Wire); };
  const Broken cases[] = {
      {"no such slot", [=](plan::Plan &p) { wire(p)->set_same_as_if_accumulating(99); }, "shares slot 98"},
      {"no accumulator", [](plan::Plan &p) { p.mutable_slots(Wide)->set_accumulator(false); }, "not an accumulator"},
      {"a lifetime of its own", [=](plan::Plan &p) { wire(p)->set_accumulator(true); }, "a lifetime of its own"},
      {"both kinds of sharing", [=](plan::Plan &p) { wire(p)->set_same_as_at_one_rank(Wide + 1); },
       "a lifetime of its own"},
      {"of one that shares",
       [](plan::Plan &p) {
         p.mutable_slots(Wide)->set_same_as_if_accumulating(Wire + 1);
         p.mutable_slots(Wire)->set_accumulator(true);
       },
       "shares another one itself"},
      {"another form", [=](plan::Plan &p) { wire(p)->mutable_size()->set_kind(plan::SizeForm::SHARD); },
       "does not fit into slot 0"},
      {"wider", [=](plan::Plan &p) { wire(p)->mutable_size()->set_element_bytes(8); }, "does not fit into slot 0"},
      {"not always there", [](plan::Plan &p) { p.mutable_slots(Wide)->mutable_size()->set_only_if_accumulating(true); },
       "does not fit into slot 0"},
      {"round to f32", [](plan::Plan &p) { stepOf(p, "round").mutable_narrow()->set_to(plan::F32); },
       "rounding from f32 to f32"},
      {"round from bf16", [](plan::Plan &p) { stepOf(p, "round").mutable_narrow()->set_from(plan::BF16); },
       "rounding from bf16 to bf16"},
      {"round a piece", [](plan::Plan &p) { stepOf(p, "round").mutable_operands(0)->set_offset(4); },
       "operand 0 (from)"},
      {"round a shard", [](plan::Plan &p) { stepOf(p, "round").mutable_operands(1)->set_own_shard(true); },
       "operand 1 (to)"},
      {"round into another type", [](plan::Plan &p) { stepOf(p, "round").mutable_operands(1)->set_slot(Wide); },
       "not a bucket or shard of bf16"},
      {"round into a shard", [](plan::Plan &p) { stepOf(p, "round").mutable_operands(1)->set_slot(Remainder); },
       "rounding a bucket to a shard"},
      {"round a range that cuts vectors",
       [](plan::Plan &p) {
         stepOf(p, "round").mutable_operands(1)->set_offset(4);
         stepOf(p, "round").mutable_operands(1)->set_bytes(16);
       },
       "16 bytes from 4 of slot 1 'wire' are not vectors"},
      {"round too much into a range", [](plan::Plan &p) { stepOf(p, "round").mutable_operands(1)->set_bytes(16); },
       "rounding 4096 bytes of f32 to 8 elements"},
      {"round another bucket", [](plan::Plan &p) { stepOf(p, "round").mutable_operands(1)->set_slot(NarrowReceive); },
       "rounding 1000 elements to 64"},
      {"reduce the wide one", [](plan::Plan &p) { stepOf(p, "reduce").mutable_operands(0)->set_slot(Wide); },
       "operand 0 (full)"},
      {"a scalar in bf16",
       [](plan::Plan &p) { stepOf(p, "reduce").mutable_collective()->set_kind(plan::Collective::ALL_REDUCE); },
       "a collective of type bf16"},
      {"remainder of f32", [](plan::Plan &p) { p.mutable_slots(Remainder)->set_type(plan::F32); },
       "masters of type f32 in slot 4"},
      {"remainder that is lost", [](plan::Plan &p) { p.mutable_slots(Remainder)->set_persistent(false); },
       "masters of type i16 in slot 4"},
  };
  for (const Broken &broken : cases) {
    plan::Plan plan = narrowPlan();
    broken.spoil(plan);
    const Status status = validatePlan(plan);
    EXPECT_FALSE(status.isOk()) << broken.name;
    EXPECT_THAT(status.message(), HasSubstr(broken.message)) << broken.name;
  }
}

TEST(NarrowPlan, BytesOnTheWireAndInMemory) {
  const plan::Plan plan = narrowPlan();
  const uint64_t shard = 384;
  EXPECT_EQ(sentBytes(plan, {3, 5, 1}).reduceScatter, 2 * shard * 2);
  EXPECT_EQ(sentBytes(plan, {3, 5, 1}).allGather, 2 * shard * 2);
  const uint64_t kept = 3 * shard * 2 + shard * (2 + 4 + 4), receive = 3 * 64 * 2;
  StatusOr<MemoryPlan> once = planMemory(plan, {3, 1, 1}), several = planMemory(plan, {3, 5, 1});
  ASSERT_OK(once.status());
  ASSERT_OK(several.status());
  EXPECT_EQ(once->arenaBytes, kept + 3 * shard * (4 + 2)) << "while it is rounded; the buffer lies where it was";
  EXPECT_EQ(several->arenaBytes, kept + 3 * shard * 4 + roundUp(receive, kArenaAlignment));
}

/// With one micro-step a product may write the rounded gradient: then the accumulator takes no memory, and what a step
/// of another number of micro-steps would do is neither sent nor counted.
TEST(NarrowPlan, StepsOfOtherNumbersOfMicrostepsTakeNoMemory) {
  plan::Plan plan = narrowPlan();
  const uint64_t before = planMemory(plan, {3, 1, 1})->arenaBytes, several = planMemory(plan, {3, 5, 1})->arenaBytes;
  for (const char *name : {"fill", "round"})
    stepOf(plan, name).set_only_if_accumulating(true);
  plan::Step &single = *plan.mutable_programs(0)->add_steps();
  single = stepOf(plan, "fill");
  single.set_name("fill, single");
  single.set_only_if_accumulating(false);
  single.set_unless_accumulating(true);
  single.mutable_operands(0)->set_slot(Wire);
  for (int i = plan.programs(0).steps_size() - 1; i > 0; --i)
    plan.mutable_programs(0)->mutable_steps()->SwapElements(i, i - 1);
  recordKernelSignatures(plan);
  ASSERT_OK(validatePlan(plan));
  EXPECT_EQ(planMemory(plan, {3, 1, 1})->arenaBytes, before - 3 * 384 * 4 + roundUp(3 * 64 * 2, kArenaAlignment))
      << "no accumulator, whose place the receive buffer had";
  EXPECT_EQ(planMemory(plan, {3, 5, 1})->arenaBytes, several);
  const plan::Step &fill = stepOf(plan, "fill"), &copy = stepOf(plan, "fill, single");
  EXPECT_EQ(runsPerStep(fill, 1), 0u);
  EXPECT_EQ(runsPerStep(fill, 5), 5u);
  EXPECT_EQ(runsPerStep(copy, 1), 1u);
  EXPECT_EQ(runsPerStep(copy, 5), 0u);
  EXPECT_FALSE(runsInMicrostep(fill, 0, 1, false));
  EXPECT_TRUE(runsInMicrostep(copy, 0, 1, false));
  EXPECT_FALSE(runsInMicrostep(copy, 4, 5, false));
}

} // namespace
