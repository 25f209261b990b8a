// How many scores of attention's gradient lie in memory: all that the peak or the budget has room for.
#include "compiler/Analysis/ScoresWorkspace.h"
#include "runtime/Format/Steps/AttentionWorkspace.h"
#include <gtest/gtest.h>

using namespace ztc;

namespace {

constexpr uint64_t kBatch = 4, kSeq = 4096, kHeads = 8, kKvHeads = 2, kHeadDim = 64;
constexpr uint64_t kWithout = gpuAttentionScratchBytes(kBatch, kSeq, kHeads, kKvHeads, kHeadDim, true, true);
constexpr PlanShape kAGpu{1, 1, 0};

uint64_t scoresOf(uint64_t sequences, uint64_t kvHeads) {
  return cudnnScoresWorkspaceBytes(sequences, kSeq, kHeads / kKvHeads * kvHeads, kvHeads, kHeadDim);
}

/// The gradient of attention, and after it a step that takes `later` bytes.
plan::Plan gradientAnd(uint64_t later) {
  plan::Plan plan;
  plan::Program &program = *plan.add_programs();
  program.set_name("microstep");
  const auto addOperand = [&](plan::Step &step, uint64_t bytes) -> plan::Slot & {
    step.add_operands()->set_slot(uint32_t(plan.slots_size()));
    step.mutable_operands(step.operands_size() - 1)->set_access(plan::Operand::WRITE);
    plan::Slot &slot = *plan.add_slots();
    slot.mutable_size()->set_elements(bytes / 4);
    slot.mutable_size()->set_element_bytes(4);
    return slot;
  };
  plan::Step &step = *program.add_steps();
  plan::Attention &attention = *step.mutable_attention();
  attention.set_batch(kBatch);
  attention.set_seq(kSeq);
  attention.set_heads(kHeads);
  attention.set_kv_heads(kKvHeads);
  attention.set_head_dim(kHeadDim);
  attention.set_causal(true);
  attention.set_grad(true);
  attention.set_type(plan::BF16);
  for (int i = 0; i < 9; ++i)
    addOperand(step, 4096);
  plan::Slot &workspace = addOperand(step, 4096);
  workspace.set_slot_class(plan::WORKSPACE);
  workspace.mutable_size()->set_gpu_elements(kWithout / 4);
  plan::Step &following = *program.add_steps();
  following.mutable_fill();
  addOperand(following, later);
  return plan;
}

uint64_t workspaceOf(const plan::Plan &plan) {
  return plan.slots(9).size().gpu_elements() * 4;
}

uint64_t grownWorkspace(plan::Plan plan, std::optional<uint64_t> budget, PlanShape shape = kAGpu) {
  EXPECT_TRUE(growScoresWorkspace(plan, {shape}, budget).isOk());
  return workspaceOf(plan);
}

} // namespace

TEST(ScoresWorkspace, TakesTheRoomThatOthersLeave) {
  EXPECT_EQ(grownWorkspace(gradientAnd(uint64_t(4) << 30), {}), scoresOf(4, kKvHeads));
  EXPECT_EQ(grownWorkspace(gradientAnd(scoresOf(3, kKvHeads)), {}), scoresOf(2, kKvHeads))
      << "three do not divide four";
  EXPECT_EQ(grownWorkspace(gradientAnd(scoresOf(2, kKvHeads) + 65536), {}), scoresOf(2, kKvHeads));
  EXPECT_EQ(grownWorkspace(gradientAnd(256), {}), kWithout) << "the gradient is the peak";
  EXPECT_EQ(grownWorkspace(gradientAnd(uint64_t(4) << 30), {}, {1, 1, 2}), kWithout) << "on a host";
}

TEST(ScoresWorkspace, GrowsWithinTheBudget) {
  const plan::Plan plan = gradientAnd(256);
  const uint64_t peak = planMemory(plan, kAGpu)->arenaBytes;
  EXPECT_EQ(grownWorkspace(plan, peak), kWithout);
  EXPECT_EQ(grownWorkspace(plan, peak + scoresOf(4, kKvHeads) - kWithout), scoresOf(4, kKvHeads));
  EXPECT_EQ(grownWorkspace(plan, peak + scoresOf(4, kKvHeads) - kWithout - 1), scoresOf(2, kKvHeads));
}

TEST(ScoresWorkspace, PartsFitTheWorkspace) {
  plan::Plan plan = gradientAnd(256);
  const plan::Step &step = plan.programs(0).steps(0);
  const auto partOf = [&](uint64_t bytes) {
    setScoresWorkspace(plan, bytes);
    const AttentionPart part = scoresPart(plan, step);
    return std::pair(part.sequences, part.kvHeads);
  };
  EXPECT_EQ(partOf(scoresOf(4, kKvHeads)), std::pair(kBatch, kKvHeads));
  EXPECT_EQ(partOf(scoresOf(4, kKvHeads) - 1), std::pair(uint64_t(2), kKvHeads));
  EXPECT_EQ(partOf(scoresOf(1, kKvHeads) - 1), std::pair(uint64_t(1), uint64_t(1)));
  EXPECT_EQ(partOf(scoresOf(1, 1) - 1), std::pair(uint64_t(0), uint64_t(0)));
  plan.mutable_programs(0)->mutable_steps(0)->mutable_attention()->set_packed(true);
  EXPECT_TRUE(scoresWorkspaces(plan).empty()) << "of packed rows none";
}
