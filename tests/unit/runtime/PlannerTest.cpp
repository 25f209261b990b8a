// The memory planner: lifetimes by rule, no two live slots share a byte, equal plans give equal layouts, packings are
// tight and quick.
#include "runtime/Memory/Planner.h"
#include "Scratch.h"
#include "runtime/Memory/ArenaSize.h"
#include <algorithm>
#include <chrono>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace ztc;
using namespace ztc::test;

namespace {

/// Programs that touch slots by number: {"microstep", {{0, 1}, {2}}} has two steps.
struct Touches {
  const char *program;
  std::vector<std::vector<uint32_t>> steps;
};

plan::Plan planOf(const std::vector<uint64_t> &elements, const std::vector<Touches> &programs) {
  plan::Plan plan;
  for (size_t i = 0; i < elements.size(); ++i)
    addSlot(plan, std::to_string(i), plan::ACTIVATIONS, elements[i], false);
  for (const Touches &touches : programs) {
    plan::Program &program = *plan.add_programs();
    program.set_name(touches.program);
    for (const std::vector<uint32_t> &slots : touches.steps) {
      plan::Step &step = *program.add_steps();
      step.mutable_transfer();
      for (uint32_t slot : slots)
        addOperand(step, slot, plan::Operand::READ_WRITE);
    }
  }
  return plan;
}

bool overlap(const SlotPlacement &a, const SlotPlacement &b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

TEST(Planner, SlotsThatNeverMeetShareTheirBytes) {
  const plan::Plan plan = planOf({64, 64, 64}, {{"microstep", {{0}, {0, 1}, {1}, {2}}}});
  const StatusOr<MemoryPlan> memory = planMemory(plan, {});
  ASSERT_OK(memory.status());
  EXPECT_EQ(memory->arenaBytes, 512u);
  EXPECT_EQ(memory->largestLiveBytes, 512u);
  EXPECT_FALSE(overlap(memory->slots[0], memory->slots[1]));
}

TEST(Planner, WhatMicrostepAndUpdateShareLivesInBetween) {
  // 0 goes from microstep to update; 1 is only used in the steps between: they must not overlap.
  const plan::Plan plan = planOf({64, 64}, {{"microstep", {{0}, {1}}}, {"update", {{1}, {0}}}});
  const StatusOr<MemoryPlan> memory = planMemory(plan, {});
  EXPECT_EQ(memory->arenaBytes, 512u);
  EXPECT_FALSE(overlap(memory->slots[0], memory->slots[1]));
}

TEST(Planner, UsesInOtherProgramsAreSeparate) {
  // Between its uses in microstep and eval slot 0 gives way to slot 1.
  const plan::Plan plan = planOf({64, 64}, {{"microstep", {{0}}}, {"update", {{1}}}, {"eval", {{0}}}});
  EXPECT_EQ(planMemory(plan, {})->arenaBytes, 256u);
}

TEST(Planner, CachesLiveFromGenerateToTheEndOfDecode) {
  // 0 is the cache: 1 dies before it begins and 3 is training's, 2 is used in decode, before and after the cache's own
  // step.
  plan::Plan plan = planOf({64, 64, 64, 64}, {{"microstep", {{3}}},
                                              {"update", {{3}}},
                                              {"generate", {{1}, {0}}},
                                              {"decode", {{2}, {0}, {2}}},
                                              {"transfer", {{3}}}});
  plan.mutable_slots(0)->set_slot_class(plan::CACHE);
  plan::Operand &begun = *plan.mutable_programs(2)->mutable_steps(1)->mutable_operands(0);
  begun.set_access(plan::Operand::WRITE);
  const StatusOr<MemoryPlan> memory = planMemory(plan, {});
  ASSERT_OK(memory.status());
  EXPECT_EQ(memory->arenaBytes, 512u) << "training needs none of it";
  EXPECT_FALSE(overlap(memory->slots[0], memory->slots[2]));
  EXPECT_EQ(memory->peakProgram, "decode");
  EXPECT_EQ(memory->byClass[plan::CACHE - 1], 256u);
  // What generate reads was there before: it lives from the begin of the program.
  begun.set_access(plan::Operand::READ_WRITE);
  const StatusOr<MemoryPlan> goesOn = planMemory(plan, {});
  ASSERT_OK(goesOn.status());
  EXPECT_FALSE(overlap(goesOn->slots[0], goesOn->slots[1]));
  EXPECT_EQ(goesOn->peakProgram, "generate");
  // One that training uses too is at no moment in two places.
  plan.mutable_slots(3)->set_slot_class(plan::CACHE);
  ASSERT_OK(planMemory(plan, {}).status());
}

TEST(Planner, PersistentSlotsAndAccumulatorsAndUnusedOnes) {
  plan::Plan plan = planOf({64, 64, 64, 64}, {{"microstep", {{0}, {1}}}, {"update", {{1}}}});
  plan.mutable_slots(2)->set_persistent(true);
  plan.mutable_slots(2)->set_slot_class(plan::PARAMETERS);
  plan.mutable_slots(1)->set_accumulator(true);
  PlanShape shape;
  StatusOr<MemoryPlan> one = planMemory(plan, shape);
  EXPECT_EQ(one->arenaBytes, 512u) << "slot 1 may follow slot 0, slot 2 is persistent, slot 3 is used by nobody";
  EXPECT_EQ(one->slots[3].bytes, 0u);
  EXPECT_EQ(one->slots[3].offset, 0u);
  EXPECT_EQ(one->byClass[0], 256u);
  shape.accumulate = 2;
  EXPECT_EQ(planMemory(plan, shape)->arenaBytes, 768u) << "the accumulator lives from the start of microstep";
}

TEST(Planner, ANarrowGradientLiesInItsAccumulator) {
  // 0 accumulates and is rounded into 1, which the update and a dump read; 2 is used in between, 3 in the dump.
  plan::Plan plan =
      planOf({64, 64, 64, 64}, {{"microstep", {{0}, {0, 1}, {2}}}, {"update", {{1}}}, {"transfer", {{1, 3}}}});
  for (int slot : {0, 1}) {
    plan.mutable_slots(slot)->set_slot_class(plan::GRADIENTS);
    plan.mutable_slots(slot)->mutable_size()->set_kind(plan::SizeForm::FULL);
    plan.mutable_slots(slot)->mutable_size()->set_elements(256);
  }
  plan.mutable_slots(0)->set_accumulator(true);
  plan.mutable_slots(1)->mutable_size()->set_element_bytes(2);
  plan.mutable_slots(1)->set_same_as_if_accumulating(1);
  const StatusOr<MemoryPlan> one = planMemory(plan, {});
  ASSERT_OK(one.status());
  EXPECT_EQ(one->arenaBytes, 1024u + 512u) << "rounded beside it; what follows may lie where it was";
  EXPECT_FALSE(overlap(one->slots[0], one->slots[1]));
  const StatusOr<MemoryPlan> several = planMemory(plan, {1, 2, 1});
  ASSERT_OK(several.status());
  EXPECT_EQ(several->slots[1].offset, several->slots[0].offset);
  EXPECT_EQ(several->slots[0].bytes, 1024u);
  EXPECT_EQ(several->slots[1].bytes, 512u);
  EXPECT_EQ(several->arenaBytes, 1024u + 256u);
  EXPECT_FALSE(overlap(several->slots[0], several->slots[2])) << "it lives for the update's sake";
  EXPECT_FALSE(overlap(several->slots[0], several->slots[3])) << "and for the dump's";
  EXPECT_EQ(several->byClass[2], 1024u);
  EXPECT_EQ(several->liveAtPeak, (std::vector<uint32_t>{0, 2}));
  plan.mutable_slots(1)->set_same_as_if_accumulating(9);
  EXPECT_EQ(planMemory(plan, {}).status().code(), StatusCode::InvalidArgument);
}

TEST(Planner, SizesFollowWorldAndThreads) {
  plan::Plan plan = planOf({1000, 10}, {{"microstep", {{0, 1}}}});
  plan.mutable_slots(0)->mutable_size()->set_kind(plan::SizeForm::SHARD);
  plan.mutable_slots(1)->mutable_size()->set_kind(plan::SizeForm::PER_THREAD);
  const StatusOr<MemoryPlan> memory = planMemory(plan, {4, 1, 100});
  EXPECT_EQ(memory->slots[0].bytes, 1024u);
  EXPECT_EQ(memory->slots[1].bytes, 4096u);
  plan.mutable_slots(1)->mutable_size()->set_elements(1ull << 59);
  EXPECT_EQ(planMemory(plan, {4, 1, 100}).status().code(), StatusCode::InvalidArgument);
  EXPECT_EQ(ArenaSize::of(plan, {4, 1, 100}).status().code(), StatusCode::InvalidArgument);
}

/// Every pair of slots that lives at one moment, by the rules written out again and slowly.
std::vector<std::vector<bool>> liveness(const plan::Plan &plan, bool accumulating) {
  uint32_t length = 0, training = 0;
  std::vector<uint32_t> begins;
  for (const plan::Program &program : plan.programs()) {
    begins.push_back(length);
    length += static_cast<uint32_t>(program.steps_size());
    if (program.name() == "microstep" || program.name() == "update")
      training = length;
  }
  std::vector<std::vector<bool>> live(static_cast<size_t>(plan.slots_size()), std::vector<bool>(length));
  for (int slot = 0; slot < plan.slots_size(); ++slot) {
    auto &row = live[static_cast<size_t>(slot)];
    const auto fill = [&](uint32_t begin, uint32_t end, bool fromStart) {
      uint32_t first = end, last = 0;
      for (int p = 0; p < plan.programs_size(); ++p)
        for (int s = 0; s < plan.programs(p).steps_size(); ++s)
          for (const plan::Operand &operand : plan.programs(p).steps(s).operands()) {
            const uint32_t at = begins[static_cast<size_t>(p)] + static_cast<uint32_t>(s);
            if (operand.slot() == static_cast<uint32_t>(slot) && at >= begin && at < end)
              first = std::min(first, at), last = std::max(last, at);
          }
      if (first == end)
        return;
      for (uint32_t at = fromStart ? begin : first; at <= last; ++at)
        row[at] = true;
    };
    if (plan.slots(slot).persistent())
      row.assign(length, true);
    fill(0, training, accumulating && plan.slots(slot).accumulator());
    for (int p = 2; p < plan.programs_size(); ++p)
      fill(begins[static_cast<size_t>(p)],
           begins[static_cast<size_t>(p)] + static_cast<uint32_t>(plan.programs(p).steps_size()), false);
  }
  return live;
}

TEST(Planner, RandomPlansHaveNoOverlapAndSumUp) {
  std::mt19937 random(7);
  for (int round = 0; round < 150; ++round) {
    const uint32_t slots = 2 + random() % 40;
    std::vector<uint64_t> elements(slots);
    for (uint64_t &n : elements)
      n = random() % 4 ? random() % 5000 : random() % 64;
    std::vector<Touches> programs = {
        {"microstep", {}}, {"update", {}}, {"eval", {}}, {"generate", {}}, {"transfer", {}}};
    for (Touches &touches : programs) {
      touches.steps.resize(1 + random() % 20);
      for (auto &step : touches.steps)
        for (unsigned n = random() % 4; n; --n)
          step.push_back(random() % slots);
    }
    plan::Plan plan = planOf(elements, programs);
    for (plan::Slot &slot : *plan.mutable_slots()) {
      slot.set_persistent(random() % 8 == 0);
      slot.set_accumulator(random() % 8 == 0);
      slot.set_slot_class(static_cast<plan::SlotClass>(1 + random() % 8));
      slot.mutable_size()->set_only_if_accumulating(random() % 8 == 0);
    }
    const PlanShape shape{1 + uint32_t(random()) % 4, 1 + uint32_t(random()) % 2, 2};
    const StatusOr<MemoryPlan> memory = planMemory(plan, shape), again = planMemory(plan, shape);
    ASSERT_OK(memory.status());
    const auto live = liveness(plan, shape.accumulate > 1);
    uint64_t largest = 0;
    for (size_t at = 0; at < live[0].size(); ++at) {
      uint64_t sum = 0;
      for (size_t s = 0; s < slots; ++s)
        sum += live[s][at] ? memory->slots[s].bytes : 0;
      largest = std::max(largest, sum);
    }
    EXPECT_EQ(memory->largestLiveBytes, largest);
    EXPECT_GE(memory->arenaBytes, largest);
    const StatusOr<ArenaSize> arena = ArenaSize::of(plan, shape);
    ASSERT_OK(arena.status());
    EXPECT_EQ(arena->largestLiveBytes(), largest);
    EXPECT_EQ(arena->bytes(), memory->arenaBytes);
    for (const uint64_t enough : {(largest + memory->arenaBytes) / 2, memory->arenaBytes + 256 * (random() % 40)}) {
      const uint64_t found = arena->bytes(enough);
      EXPECT_GE(found, memory->arenaBytes);
      EXPECT_LE(found, std::max(enough, memory->arenaBytes));
    }
    for (size_t a = 0; a < slots; ++a) {
      EXPECT_EQ(memory->slots[a].offset, again->slots[a].offset);
      EXPECT_EQ(memory->slots[a].offset % kArenaAlignment, 0u);
      EXPECT_LE(memory->slots[a].offset + memory->slots[a].bytes, memory->arenaBytes);
      if (std::any_of(live[a].begin(), live[a].end(), [](bool x) { return x; }))
        EXPECT_EQ(memory->slots[a].bytes, sizeBytes(plan.slots(static_cast<int>(a)).size(), shape));
      for (size_t b = 0; b < a; ++b)
        if (overlap(memory->slots[a], memory->slots[b]))
          for (size_t at = 0; at < live[a].size(); ++at)
            ASSERT_FALSE(live[a][at] && live[b][at]) << "slots " << a << " and " << b << " at " << at;
    }
    EXPECT_EQ(std::accumulate(memory->byClass.begin(), memory->byClass.end(), uint64_t(0)), memory->arenaBytes);
  }
}

/// The pattern of a training step: per layer `saved` activations that live until the layer's backward, and short-lived
/// ones.
plan::Plan trainingPlan(uint32_t layers, std::mt19937 &random) {
  plan::Plan plan;
  plan::Program &microstep = *plan.add_programs();
  microstep.set_name("microstep");
  const uint32_t residual = addSlot(plan, "residual", plan::ACTIVATIONS, 4096 * 512, false);
  std::vector<std::vector<uint32_t>> saved(layers);
  static constexpr uint64_t kSizes[] = {4096 * 512,  4096 * 512,  4096 * 128, 4096 * 128,
                                        4096 * 1792, 4096 * 1792, 4096 * 512, 4096};
  const auto touch = [&](std::initializer_list<uint32_t> slots) {
    plan::Step &step = *microstep.add_steps();
    for (uint32_t slot : slots)
      addOperand(step, slot, plan::Operand::READ_WRITE);
  };
  for (uint32_t layer = 0; layer < layers; ++layer)
    for (int i = 0; i < 24; ++i) {
      const uint32_t temporary = addSlot(plan, "t", plan::ACTIVATIONS, kSizes[random() % 8], false);
      saved[layer].push_back(addSlot(plan, "s", plan::ACTIVATIONS, kSizes[i % 8], false));
      touch({temporary, residual});
      touch({temporary, saved[layer].back()});
    }
  for (uint32_t layer = layers; layer-- > 0;)
    for (size_t i = saved[layer].size(); i-- > 0;) {
      const uint32_t gradient = addSlot(plan, "g", plan::GRADIENTS, kSizes[i % 8], false);
      const uint32_t workspace = addSlot(plan, "w", plan::WORKSPACE, kSizes[random() % 8], false);
      touch({saved[layer][i], gradient, workspace});
      touch({gradient, residual});
    }
  return plan;
}

TEST(Planner, TrainingStepsPackTightlyAndQuickly) {
  std::mt19937 random(3);
  for (uint32_t layers : {2, 16, 80}) {
    const plan::Plan plan = trainingPlan(layers, random);
    const auto begin = std::chrono::steady_clock::now();
    const StatusOr<MemoryPlan> memory = planMemory(plan, {});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ASSERT_OK(memory.status());
    EXPECT_LE(double(memory->arenaBytes), 1.03 * double(memory->largestLiveBytes)) << layers << " layers";
    // Half a second is the aim on an idle machine; sanitizers and loaded machines take their share.
    EXPECT_LT(seconds, 10.0) << plan.slots_size() << " slots";
    RecordProperty("seconds", std::to_string(seconds));
  }
}

} // namespace
