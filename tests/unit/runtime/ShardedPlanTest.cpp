// Plans with shards and collectives: the validator against plans broken one fact at a time, storage shared at one rank,
// and the bytes on the wire.
#include "Scratch.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/KernelSignature.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Memory/MemoryTimeline.h"
#include "runtime/Memory/Planner.h"
#include "runtime/Memory/Traffic.h"
#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

constexpr uint64_t kElements = 1000;

/// Slots of shardedPlan, in order.
enum Slot : uint32_t { Parameter, Gathered, Gradient, Local, ExpAvg, ExpAvgSq, Receive, Value };

uint32_t addForm(plan::Plan &plan, const std::string &name, plan::SlotClass slotClass, plan::SizeForm::Kind kind,
                 uint64_t elements, bool persistent) {
  const uint32_t slot = addSlot(plan, name, slotClass, elements, persistent);
  plan.mutable_slots(static_cast<int>(slot))->mutable_size()->set_kind(kind);
  return slot;
}

plan::Step &addStep(plan::Program &program, const std::string &name, uint32_t stream) {
  plan::Step &step = *program.add_steps();
  step.set_name(name);
  step.set_layer(-1);
  step.set_stream(stream);
  return step;
}

/// A collective as ConvertToPlan writes it: ready, begin, the collective, finished; its events are `event` and the
/// next.
plan::Step &addCollective(plan::Program &program, const std::string &name, plan::Collective::Kind kind, uint32_t event,
                          uint64_t order, std::initializer_list<uint32_t> slots) {
  addStep(program, name + " ready", 0).mutable_record()->set_event(event);
  addStep(program, name + " begin", 1).mutable_wait()->set_event(event);
  plan::Step &step = addStep(program, name, 1);
  step.mutable_collective()->set_kind(kind);
  step.mutable_collective()->set_axis("data");
  step.mutable_collective()->set_type(plan::F32);
  step.mutable_collective()->set_launch_order(order);
  for (uint32_t slot : slots)
    addOperand(step, slot, plan::Operand::READ_WRITE);
  addStep(program, name + " finished", 1).mutable_record()->set_event(event + 1);
  return step;
}

void addDone(plan::Program &program, const std::string &name, uint32_t event, std::initializer_list<uint32_t> slots) {
  plan::Step &step = addStep(program, name + " done", 0);
  step.mutable_wait()->set_event(event);
  for (uint32_t slot : slots)
    addOperand(step, slot, plan::Operand::READ_WRITE);
}

/// One bucket of kElements under ZeRO-3: gathered and reduced in every micro-step; the update adds up one scalar.
plan::Plan shardedPlan() {
  plan::Plan plan;
  plan.mutable_model()->set_batch(1);
  plan.mutable_model()->set_seq(1);
  plan.mutable_model()->set_vocabulary(2);
  using F = plan::SizeForm;
  addForm(plan, "parameter", plan::PARAMETERS, F::SHARD, kElements, true);
  addForm(plan, "gathered", plan::GATHERED, F::FULL, kElements, false);
  addForm(plan, "gradient", plan::GRADIENTS, F::SHARD, kElements, false);
  addForm(plan, "local", plan::GRADIENTS, F::FULL, kElements, false);
  addForm(plan, "exp_avg", plan::OPTIMIZER, F::SHARD, kElements, true);
  addForm(plan, "exp_avg_sq", plan::OPTIMIZER, F::SHARD, kElements, true);
  addForm(plan, "receive", plan::COMMUNICATION, F::FULL, 64, false);
  addForm(plan, "value", plan::WORKSPACE, F::CONSTANT, 1, false);
  plan.mutable_slots(Gathered)->set_same_as_at_one_rank(Parameter + 1);
  plan.mutable_slots(Receive)->mutable_size()->set_only_if_several_ranks(true);
  plan::Bucket &bucket = *plan.add_buckets();
  bucket.set_name("block0");
  bucket.set_elements(kElements);
  bucket.set_decayed(kElements);
  bucket.set_trainable(true);
  bucket.set_parameter_slot(Parameter);
  bucket.set_gradient_slot(Gradient);
  addState(bucket, "exp_avg", ExpAvg);
  addState(bucket, "exp_avg_sq", ExpAvgSq);
  bucket.set_master_slot(kAbsent);
  plan.add_images()->set_target("t");
  plan.mutable_images(0)->set_data("x");
  plan::Kernel &kernel = *plan.add_kernels();
  kernel.set_name("accumulate");
  kernel.add_versions()->set_target("t");
  plan::Program &microstep = *plan.add_programs();
  microstep.set_name("microstep");
  addCollective(microstep, "gather", plan::Collective::ALL_GATHER, 0, 0, {Parameter, Gathered});
  addDone(microstep, "gather", 1, {Parameter, Gathered});
  plan::Step &fill = addStep(microstep, "fill", 0);
  fill.mutable_fill();
  addOperand(fill, Local, plan::Operand::WRITE);
  addCollective(microstep, "reduce", plan::Collective::REDUCE_SCATTER, 2, 1, {Local, Receive});
  addDone(microstep, "reduce", 3, {Local, Receive});
  plan::Step &accumulate = addStep(microstep, "accumulate", 0);
  accumulate.mutable_launch()->set_flat(true);
  accumulate.mutable_launch()->set_flat_block(4096);
  addOperand(accumulate, Local, plan::Operand::READ);
  accumulate.mutable_operands(0)->set_own_shard(true);
  addOperand(accumulate, Gradient, plan::Operand::WRITE);
  plan::Program &update = *plan.add_programs();
  update.set_name("update");
  addCollective(update, "sum", plan::Collective::ALL_REDUCE, 4, 2, {Value, Receive});
  addDone(update, "sum", 5, {Value, Receive});
  plan::Bindings &b = *plan.mutable_bindings();
  for (auto set : {&plan::Bindings::set_tokens, &plan::Bindings::set_targets, &plan::Bindings::set_step_parameters,
                   &plan::Bindings::set_loss, &plan::Bindings::set_eval_loss, &plan::Bindings::set_gradient_norm,
                   &plan::Bindings::set_finite, &plan::Bindings::set_position, &plan::Bindings::set_logits,
                   &plan::Bindings::set_staging, &plan::Bindings::set_first_token})
    (b.*set)(kAbsent);
  recordKernelSignatures(plan);
  return plan;
}

plan::Step &stepOf(plan::Plan &plan, std::string_view name) {
  for (plan::Program &program : *plan.mutable_programs())
    for (plan::Step &step : *program.mutable_steps())
      if (step.name() == name)
        return step;
  ADD_FAILURE() << "no step " << name;
  return *plan.mutable_programs(0)->mutable_steps(0);
}

/// Does something to the five steps of the gather.
void forGather(plan::Plan &plan, const std::function<void(plan::Step &)> &change, bool isKept = false) {
  for (const char *name : {"gather ready", "gather begin", "gather", "gather finished", "gather done"})
    change(stepOf(plan, name));
  if (isKept)
    stepOf(plan, "gather").set_only_first_microstep(true);
}

/// The gather serves all micro-steps.
void keepGather(plan::Plan &plan) {
  plan.mutable_slots(Gathered)->set_kept(true);
  forGather(plan, [](plan::Step &step) { step.set_only_first_microstep(true); });
}

/// The first micro-step makes fp8 codes that a copy in each reads. Returns the slot of the codes.
uint32_t makeOnce(plan::Plan &plan) {
  using F = plan::SizeForm;
  const uint32_t matrix = addForm(plan, "matrix", plan::ACTIVATIONS, F::CONSTANT, 256, false);
  const uint32_t scale = addForm(plan, "scale", plan::WORKSPACE, F::CONSTANT, 2, false);
  const uint32_t partials = addForm(plan, "partials", plan::WORKSPACE, F::CONSTANT, 1024, false);
  const uint32_t codes = addForm(plan, "codes", plan::WORKSPACE, F::CONSTANT, 64, false);
  plan.mutable_slots(int(codes))->set_kept(true);
  plan::Program &microstep = *plan.mutable_programs(0);
  plan::Step &fill = addStep(microstep, "matrix", 0);
  fill.mutable_fill();
  addOperand(fill, matrix, plan::Operand::WRITE);
  plan::Step &quantize = addStep(microstep, "codes", 0);
  quantize.set_only_first_microstep(true);
  quantize.mutable_quantize_fp8()->set_rows(16);
  quantize.mutable_quantize_fp8()->set_columns(16);
  quantize.mutable_quantize_fp8()->set_from(plan::F32);
  quantize.mutable_quantize_fp8()->set_to(plan::E4M3);
  quantize.mutable_quantize_fp8()->set_by_rows(true);
  addOperand(quantize, matrix, plan::Operand::READ);
  for (uint32_t slot : {scale, partials, codes})
    addOperand(quantize, slot, plan::Operand::WRITE);
  plan::Step &copy = addStep(microstep, "copy of codes", 0);
  copy.mutable_copy()->set_bytes(256);
  addOperand(copy, codes, plan::Operand::READ);
  addOperand(copy, matrix, plan::Operand::WRITE);
  return codes;
}

/// The update gathers for the next step.
void carryGather(plan::Plan &plan) {
  plan.mutable_slots(Gathered)->set_carried(true);
  forGather(plan, [](plan::Step &step) { step.set_unless_carried(true); });
  plan::Program &update = *plan.mutable_programs(1);
  addCollective(update, "early", plan::Collective::ALL_GATHER, 6, 3, {Parameter, Gathered});
  addDone(update, "early", 7, {Parameter, Gathered});
}

struct Broken {
  const char *name;
  std::function<void(plan::Plan &)> spoil;
  const char *message;
};

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
