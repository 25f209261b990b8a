// How many rows of logits a GPU works on at a time: all that the peak or the budget has room for, and what that moves.
#include "compiler/Analysis/LossRows.h"
#include "runtime/Format/ScratchSizes.h"
#include "runtime/Memory/StepBytes.h"
#include <gtest/gtest.h>

using namespace ztc;

namespace {

constexpr uint64_t kTokens = 4096, kWidth = 64, kVocabulary = 1000, kFirst = 512;
constexpr PlanShape kGpu{1, 1, 0};

uint32_t addSlot(plan::Plan &plan, uint64_t bytes) {
  plan::Slot &slot = *plan.add_slots();
  slot.mutable_size()->set_elements(bytes / 4);
  slot.mutable_size()->set_element_bytes(4);
  return uint32_t(plan.slots_size() - 1);
}

void addOperand(plan::Step &step, uint32_t slot, plan::Operand::Access access = plan::Operand::READ) {
  step.add_operands()->set_slot(slot);
  step.mutable_operands(step.operands_size() - 1)->set_access(access);
}

/// The head and loss of bf16 tensors, and after it a step that takes `later` bytes.
plan::Plan planOf(uint64_t later) {
  plan::Plan plan;
  plan::Program &program = *plan.add_programs();
  program.set_name("microstep");
  plan::Step &step = *program.add_steps();
  auto &loss = *step.mutable_linear_cross_entropy();
  loss.set_tokens(kTokens);
  loss.set_width(kWidth);
  loss.set_vocabulary(kVocabulary);
  loss.set_chunk(64);
  loss.set_gpu_chunk(kFirst);
  loss.set_training(true);
  loss.set_type(plan::BF16);
  for (uint64_t bytes : {kTokens * kWidth * 2, kVocabulary * kWidth * 2, kTokens * 4, uint64_t(4)})
    addOperand(step, addSlot(plan, bytes));
  addOperand(step, addSlot(plan, linearCrossEntropyScratchBytes(64, kVocabulary)), plan::Operand::WRITE);
  plan.mutable_slots(4)->set_slot_class(plan::WORKSPACE);
  plan.mutable_slots(4)->mutable_size()->set_gpu_elements(
      gpuLinearCrossEntropyScratchBytes(kFirst, kTokens, kVocabulary, 2) / 4);
  for (uint64_t bytes : {uint64_t(4), kTokens * kWidth * 2, kVocabulary * kWidth * 4})
    addOperand(step, addSlot(plan, bytes), plan::Operand::WRITE);
  addOperand(step, addSlot(plan, 4096));
  plan.mutable_slots(8)->set_slot_class(plan::WORKSPACE);
  plan::Step &following = *program.add_steps();
  following.mutable_fill();
  addOperand(following, addSlot(plan, later), plan::Operand::WRITE);
  return plan;
}

uint64_t peakOf(const plan::Plan &plan) {
  return planMemory(plan, kGpu)->arenaBytes;
}

uint64_t rowsOf(plan::Plan plan, std::optional<uint64_t> budget, PlanShape shape = kGpu) {
  EXPECT_TRUE(growLossRows(plan, {shape}, budget).isOk());
  return trainingLoss(plan).rows;
}

TEST(LossRows, GrowWhereThePeakLiesElsewhere) {
  const plan::Plan wide = planOf(uint64_t(64) << 20);
  EXPECT_EQ(rowsOf(wide, {}), kTokens);
  plan::Plan grown = wide;
  ASSERT_TRUE(growLossRows(grown, {kGpu}, {}).isOk());
  EXPECT_EQ(peakOf(grown), peakOf(wide));
  EXPECT_EQ(grown.slots(4).size().gpu_elements() * 4,
            gpuLinearCrossEntropyScratchBytes(kTokens, kTokens, kVocabulary, 2));
  EXPECT_EQ(grown.slots(4).size().elements(), wide.slots(4).size().elements()) << "the host's chunk is its own";
  EXPECT_EQ(rowsOf(planOf(256), {}), kFirst) << "the loss is the peak";
  EXPECT_EQ(rowsOf(wide, {}, {1, 1, 2}), kFirst) << "on a host";
}

TEST(LossRows, GrowWithinTheBudget) {
  const plan::Plan plan = planOf(256);
  const uint64_t perRow = gpuLogitStride(kVocabulary) * 2, peak = peakOf(plan);
  EXPECT_EQ(rowsOf(plan, peak), kFirst);
  EXPECT_EQ(rowsOf(plan, peak + (kTokens - kFirst) * perRow), kTokens);
  EXPECT_EQ(rowsOf(plan, peak + (kTokens - kFirst) * perRow - 1), kTokens / 2) << "a byte too little for one chunk";
  EXPECT_EQ(rowsOf(plan, peak - 1), kFirst) << "more than the budget as it is";
  // The smallest room of several runs counts.
  auto several = plan;
  ASSERT_TRUE(growLossRows(several, {kGpu, {8, 4, 0}}, peak + 1500 * perRow).isOk());
  EXPECT_EQ(trainingLoss(several).rows, 1408u) << "three chunks of whole tiles";
}

TEST(LossRows, ChunksAreEven) {
  EXPECT_EQ(evenChunk(8192, 2093), 2048u);
  EXPECT_EQ(evenChunk(6000, 2093), 2048u) << "2000 rows in whole tiles";
  EXPECT_EQ(evenChunk(6000, 2000), 2000u);
  EXPECT_EQ(evenChunk(90, 64), 45u);
  EXPECT_EQ(evenChunk(64, 4096), 64u);
  EXPECT_EQ(gpuLinearCrossEntropyChunk(8192, 128256, 2), 2048u);
  EXPECT_EQ(gpuLinearCrossEntropyChunk(8192, 128256, 4), 1024u);
  EXPECT_EQ(gpuLogitStride(50257), 50304u);
}

TEST(LossRows, SetToANumber) {
  plan::Plan plan = planOf(256);
  setLossRows(plan, 1);
  EXPECT_EQ(trainingLoss(plan).rows, 1u);
  setLossRows(plan, 1 << 20);
  EXPECT_EQ(trainingLoss(plan).rows, kTokens);
}

// Each chunk but the first reads and writes the f32 cotangent of the head; logits are written, read twice, and their
// cotangents written and read by two products.
TEST(LossRows, FewerChunksMoveFewerBytes) {
  plan::Plan plan = planOf(256);
  const auto bytes = [&](PlanShape shape) {
    return stepBytes(plan, *planMemory(plan, shape), shape, plan.programs(0).steps(0));
  };
  const uint64_t operands = bytes({1, 1, 2}), logits = kTokens * kVocabulary * 2 * 6, head = kVocabulary * kWidth * 8;
  EXPECT_EQ(bytes(kGpu), operands + logits + 7 * head);
  setLossRows(plan, kTokens);
  EXPECT_EQ(bytes(kGpu), operands + logits);
}

} // namespace
