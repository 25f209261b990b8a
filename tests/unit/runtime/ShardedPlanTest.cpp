// Plans with shards and collectives: the validator against plans broken one fact at a time, storage shared at one rank,
// and the bytes on the wire.
#include "ShardedPlans.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Memory/MemoryTimeline.h"
#include "runtime/Memory/Planner.h"
#include "runtime/Memory/Traffic.h"
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

TEST(ShardedPlan, EachFactIsChecked) {
  ASSERT_OK(validatePlan(shardedPlan()));
  const Broken cases[] = {
      {"own shard of a shard", [](plan::Plan &p) { stepOf(p, "accumulate").mutable_operands(1)->set_own_shard(true); },
       "which is not full"},
      {"a piece of an own shard", [](plan::Plan &p) { stepOf(p, "accumulate").mutable_operands(0)->set_bytes(4); },
       "or a piece of it"},
      {"a whole bucket in a launch over a shard",
       [](plan::Plan &p) { stepOf(p, "accumulate").mutable_operands(0)->set_own_shard(false); },
       "a whole bucket in a launch over the rank's shard"},
      {"a shard in a launch over the whole",
       [](plan::Plan &p) { stepOf(p, "accumulate").mutable_launch()->set_flat_range(plan::Launch::WHOLE); },
       "a shard of the bucket in a launch over all of it"},
      {"unknown range",
       [](plan::Plan &p) {
         stepOf(p, "accumulate").mutable_launch()->set_flat_range(static_cast<plan::Launch::FlatRange>(5));
       },
       "unknown range 5"},
      {"shared: no such slot", [](plan::Plan &p) { p.mutable_slots(Gathered)->set_same_as_at_one_rank(99); },
       "shares slot 98"},
      {"shared: not persistent", [](plan::Plan &p) { p.mutable_slots(Parameter)->set_persistent(false); },
       "only one of them may be persistent"},
      {"shared: another size", [](plan::Plan &p) { p.mutable_slots(Gathered)->mutable_size()->set_elements(2000); },
       "of another size"},
      {"shared: another form",
       [](plan::Plan &p) { p.mutable_slots(Gathered)->mutable_size()->set_kind(plan::SizeForm::CONSTANT); },
       "of another size"},
      {"gather of what is not shared", [](plan::Plan &p) { p.mutable_slots(Gathered)->clear_same_as_at_one_rank(); },
       "at one rank slot 1 would not be slot 0"},
      {"gather into another form", [](plan::Plan &p) { stepOf(p, "gather").mutable_operands(1)->set_slot(Gradient); },
       "operand 1 (full)"},
      {"gather of a whole slot", [](plan::Plan &p) { stepOf(p, "gather").mutable_operands(0)->set_slot(Local); },
       "operand 0 (shard)"},
      {"gather of a piece", [](plan::Plan &p) { stepOf(p, "gather").mutable_operands(1)->set_offset(4); },
       "operand 1 (full)"},
      {"gather of another type", [](plan::Plan &p) { stepOf(p, "gather").mutable_collective()->set_type(plan::BF16); },
       "operand 0 (shard)"},
      {"reduction of a shard", [](plan::Plan &p) { stepOf(p, "reduce").mutable_operands(0)->set_own_shard(true); },
       "only a shard of it"},
      {"reduction without buffer", [](plan::Plan &p) { stepOf(p, "reduce").mutable_operands()->RemoveLast(); },
       "1 operands, 2"},
      {"reduction with another buffer",
       [](plan::Plan &p) { stepOf(p, "reduce").mutable_operands(1)->set_slot(Gathered); }, "not a receive buffer"},
      {"reduction of integers", [](plan::Plan &p) { stepOf(p, "reduce").mutable_collective()->set_type(plan::I32); },
       "of type i32"},
      {"no axis", [](plan::Plan &p) { stepOf(p, "reduce").mutable_collective()->clear_axis(); }, "no axis"},
      {"no bucket", [](plan::Plan &p) { stepOf(p, "reduce").mutable_collective()->set_bucket(1); }, "bucket 1"},
      {"O1 stream", [](plan::Plan &p) { stepOf(p, "fill").set_stream(3); }, "stream 3"},
      {"O1 moves", [](plan::Plan &p) { stepOf(p, "fill").set_stream(2); }, "on the stream of moves"},
      {"O1 compute", [](plan::Plan &p) { stepOf(p, "fill").set_stream(1); }, "computes on the stream"},
      {"O2 twice", [](plan::Plan &p) { stepOf(p, "reduce ready").mutable_record()->set_event(0); },
       "event 0 is recorded twice"},
      {"O2 before", [](plan::Plan &p) { stepOf(p, "gather begin").mutable_wait()->set_event(3); },
       "event 3 is not recorded before it"},
      {"O2 elsewhere", [](plan::Plan &p) { stepOf(p, "sum begin").mutable_wait()->set_event(1); },
       "event 1 is not recorded before it in its program"},
      {"O2 own stream", [](plan::Plan &p) { stepOf(p, "gather begin").set_stream(0); },
       "stream 0 waits for event 0, its own"},
      {"O3", [](plan::Plan &p) { stepOf(p, "gather ready").set_only_last_microstep(true); },
       "which only the last one records"},
      {"O4", [](plan::Plan &p) { stepOf(p, "sum").set_only_last_microstep(true); }, "outside of microstep"},
      {"O6 elsewhere", [](plan::Plan &p) { stepOf(p, "sum").set_only_first_microstep(true); },
       "a step of the first micro-step outside of it"},
      {"O6 both ends",
       [](plan::Plan &p) { forGather(p, [](plan::Step &s) { s.set_only_last_microstep(true); }, true); },
       "a step of the first micro-step outside of it"},
      {"O6 no gather", [](plan::Plan &p) { stepOf(p, "fill").set_unless_carried(true); },
       "only a gather and its events"},
      {"O6 events",
       [](plan::Plan &p) {
         keepGather(p);
         stepOf(p, "gather done").set_only_first_microstep(false);
       },
       "in other micro-steps than those that record it"},
      {"O9 elsewhere", [](plan::Plan &p) { stepOf(p, "sum").set_only_if_accumulating(true); },
       "depends on the number of micro-steps, outside of microstep"},
      {"O9 both",
       [](plan::Plan &p) {
         stepOf(p, "fill").set_only_if_accumulating(true);
         stepOf(p, "fill").set_unless_accumulating(true);
       },
       "for no number of them"},
      {"O9 an event", [](plan::Plan &p) { stepOf(p, "gather ready").set_unless_accumulating(true); },
       "an event, or what is sent or moved"},
      {"O9 parameter", [](plan::Plan &p) { stepOf(p, "fill").set_owned_parameter(99); },
       "a step of the owner of parameter 98"},
      {"O9 others", [](plan::Plan &p) { stepOf(p, "fill").set_unless_owner(true); },
       "a step of the owner of parameter"},
      {"O9 alone", [](plan::Plan &p) { stepOf(p, "reduce").set_owned_parameter(1); }, "one rank alone communicates"},
      {"O7 not kept", [](plan::Plan &p) { forGather(p, [](plan::Step &s) { s.set_only_first_microstep(true); }); },
       "slot 'gathered' is not kept over micro-steps"},
      {"O7 kept", [](plan::Plan &p) { p.mutable_slots(Gathered)->set_kept(true); },
       "slot 'gathered' is kept over micro-steps"},
      {"O8 carried", [](plan::Plan &p) { p.mutable_slots(Gathered)->set_carried(true); },
       "slot 'gathered' is carried to the next step"},
      {"O8 not gathered",
       [](plan::Plan &p) {
         p.mutable_slots(Gathered)->set_carried(true);
         forGather(p, [](plan::Step &s) { s.set_unless_carried(true); });
       },
       "and update does not gather it"},
      {"kept: a shard", [](plan::Plan &p) { p.mutable_slots(Gradient)->set_kept(true); }, "only a gathered bucket"},
      {"kept: persistent",
       [](plan::Plan &p) {
         p.mutable_slots(Local)->set_carried(true);
         p.mutable_slots(Local)->set_accumulator(true);
       },
       "only a gathered bucket"},
      {"O9 not kept",
       [](plan::Plan &p) {
         const uint32_t written = makeOnce(p);
         p.mutable_slots(int(written))->set_kept(false);
       },
       "only the first one writes it, and it is not kept"},
      {"O9 written again",
       [](plan::Plan &p) {
         makeOnce(p);
         plan::Step again = stepOf(p, "codes");
         again.set_name("codes again");
         again.set_only_first_microstep(false);
         *p.mutable_programs(0)->add_steps() = again;
       },
       "is written in the first micro-step alone, and in others"},
      {"O9 in every micro-step",
       [](plan::Plan &p) {
         makeOnce(p);
         stepOf(p, "codes").set_only_first_microstep(false);
       },
       "and no step of the first one alone writes it"},
      {"O5", [](plan::Plan &p) { stepOf(p, "reduce").mutable_collective()->set_launch_order(0); },
       "launch order 0 after 0"},
  };
  for (const Broken &broken : cases) {
    plan::Plan plan = shardedPlan();
    broken.spoil(plan);
    const Status status = validatePlan(plan);
    EXPECT_FALSE(status.isOk()) << broken.name;
    EXPECT_THAT(status.message(), HasSubstr(broken.message)) << broken.name;
  }
}

TEST(ShardedPlan, AGatheredSlotIsTheParameterSlotAtOneRank) {
  const plan::Plan plan = shardedPlan();
  StatusOr<MemoryPlan> one = planMemory(plan, {1, 1, 1}), three = planMemory(plan, {3, 1, 1});
  ASSERT_OK(one.status());
  ASSERT_OK(three.status());
  EXPECT_EQ(one->slots[Gathered].offset, one->slots[Parameter].offset);
  EXPECT_EQ(one->slots[Gathered].bytes, 4096u);
  EXPECT_EQ(one->byClass[1], 0u);
  EXPECT_EQ(one->slots[Receive].bytes, 0u) << "there is nobody to receive from";
  EXPECT_EQ(one->arenaBytes, 3 * 4096u + 2 * 4096u) << "parameter and states, then local and reduced gradient";
  const uint64_t shard = 384 * 4, full = 3 * shard, buffer = 3 * 64 * 4;
  EXPECT_EQ(three->slots[Gathered].bytes, full);
  EXPECT_EQ(three->arenaBytes, 3 * shard + full + shard + buffer) << "gathered and local gradient share their bytes";
}

TEST(ShardedPlan, AWaitKeepsItsSlotsAlive) {
  // The gathered slot is read by nobody but the wait at the end: what is filled in between may not lie there.
  plan::Plan plan = shardedPlan();
  plan.mutable_programs(0)->mutable_steps()->SwapElements(4, 5);
  ASSERT_OK(validatePlan(plan));
  StatusOr<MemoryPlan> memory = planMemory(plan, {2, 1, 1});
  const SlotPlacement a = memory->slots[Gathered], b = memory->slots[Local];
  EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
}

TEST(ShardedPlan, WhatIsKeptLivesOverMicroSteps) {
  plan::Plan plan = shardedPlan();
  keepGather(plan);
  ASSERT_OK(validatePlan(plan));
  const auto isApart = [&](uint32_t accumulate) {
    const MemoryPlan memory = *planMemory(plan, {2, accumulate, 1});
    const SlotPlacement a = memory.slots[Gathered], b = memory.slots[Local];
    return a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
  };
  EXPECT_FALSE(isApart(1)) << "of one micro-step nothing is kept: what follows takes its place";
  EXPECT_TRUE(isApart(2));
  const uint64_t shard = 384 * 4;
  EXPECT_EQ(sentBytes(plan, {3, 5, 1}).allGather, 2 * shard) << "once";
  EXPECT_EQ(sentBytes(plan, {3, 5, 1}).reduceScatter, 5 * 2 * shard);
}

TEST(ShardedPlan, CodesOfTheFirstMicroStepLiveOverAll) {
  plan::Plan plan = shardedPlan();
  const auto codes = makeOnce(plan);
  ASSERT_OK(validatePlan(plan));
  // The peak comes before the step that makes them.
  const auto isAtPeak = [&](uint32_t accumulate) {
    return std::ranges::count(planMemory(plan, {2, accumulate, 1})->liveAtPeak, codes) == 1;
  };
  EXPECT_FALSE(isAtPeak(1));
  EXPECT_TRUE(isAtPeak(2));
}

TEST(ShardedPlan, WhatIsCarriedLivesFromTheUpdateToItsLastUse) {
  plan::Plan plan = shardedPlan();
  carryGather(plan);
  // A buffer that only evaluation has must leave it alone, one of the micro-step after its last use need not.
  const uint32_t other = addForm(plan, "of eval", plan::WORKSPACE, plan::SizeForm::FULL, kElements, false);
  plan::Program &eval = *plan.add_programs();
  eval.set_name("eval");
  plan::Step &fill = addStep(eval, "fill", 0);
  fill.mutable_fill();
  addOperand(fill, other, plan::Operand::WRITE);
  ASSERT_OK(validatePlan(plan));
  const MemoryPlan memory = *planMemory(plan, {2, 1, 1});
  const auto isApart = [&](uint32_t slot) {
    const SlotPlacement a = memory.slots[Gathered], b = memory.slots[slot];
    return a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
  };
  EXPECT_TRUE(isApart(other));
  EXPECT_FALSE(isApart(Local));
  const uint64_t shard = 384 * 4;
  EXPECT_EQ(sentBytes(plan, {3, 1, 1}).allGather, 2 * shard) << "in the update in place of the micro-step";
  EXPECT_EQ(sentBytes(plan, {3, 5, 1}).allGather, 5 * 2 * shard) << "later micro-steps gather themselves";
  for (const SlotEnd &end : slotEnds(plan, {2, 1, 1}))
    if (end.slot == Gathered)
      EXPECT_EQ(plan.programs(int(end.program)).name(), "microstep") << "it does not end with the last program";
}

TEST(ShardedPlan, BytesOnTheWire) {
  plan::Plan plan = shardedPlan();
  const uint64_t shard = 384 * 4;
  SentBytes sent = sentBytes(plan, {3, 1, 1});
  EXPECT_EQ(sent.allGather, 2 * shard);
  EXPECT_EQ(sent.reduceScatter, 2 * shard);
  EXPECT_EQ(sent.allReduce, 2 * 4u);
  EXPECT_EQ(sent.parametersAndGradients(), 4 * shard);
  EXPECT_EQ(sentBytes(plan, {3, 5, 1}).parametersAndGradients(), 20 * shard);
  for (const char *name : {"reduce ready", "reduce begin", "reduce", "reduce finished", "reduce done"})
    stepOf(plan, name).set_only_last_microstep(true);
  ASSERT_OK(validatePlan(plan));
  EXPECT_EQ(sentBytes(plan, {3, 5, 1}).reduceScatter, 2 * shard);
  EXPECT_EQ(sentBytes(plan, {1, 5, 1}).parametersAndGradients(), 0u);
  plan.mutable_programs(0)->set_name("eval");
  EXPECT_EQ(sentBytes(plan, {3, 5, 1}).parametersAndGradients(), 0u) << "evaluation is not counted";
}

TEST(Shards, CoverABucketOnce) {
  for (uint64_t elements : {1u, 63u, 64u, 65u, 1000u, 4097u})
    for (uint64_t world : {1u, 2u, 3u, 7u, 64u}) {
      uint64_t end = 0;
      for (uint64_t rank = 0; rank < world; ++rank) {
        const ShardRange range = shardRange(elements, world, rank);
        EXPECT_EQ(range.start, end);
        EXPECT_LE(range.length, shardElements(elements, world));
        end = range.start + range.length;
      }
      EXPECT_EQ(end, elements);
      EXPECT_EQ(shardElements(elements, world) % kShardQuantum, 0u);
    }
}

} // namespace
