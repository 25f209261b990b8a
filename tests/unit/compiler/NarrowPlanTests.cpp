// Plans of bf16 and fp16 at every ZeRO stage: types of slots, what is rounded where, bytes on the wire and in memory,
// all against the arithmetic.
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Memory/Planner.h"
#include "runtime/Memory/Traffic.h"
#include "tests/unit/compiler/PlanHarness.h"

using namespace ztc;
using namespace ztc::test;
using plan::SizeForm;

namespace {

const PrecisionOptions kBf16{StoragePrecision::Bf16, StateFormat::Fp32, {}},
    kFp16{StoragePrecision::Fp16, StateFormat::Fp32, {}},
    kMixed{StoragePrecision::Bf16, StateFormat::Fp32, {"^layers\\.0\\.q_proj"}};

plan::Plan narrowPlan(unsigned zero, const PrecisionOptions &precision, bool tied = false, bool withKernels = false) {
  return compilePlan(tied, withKernels, zero, 1, precision);
}
const plan::Slot &slotOf(const plan::Plan &plan, uint32_t slot) {
  return plan.slots(static_cast<int>(slot));
}

TEST(NarrowPlan, EveryStageIsValidAndHasNoCopies) {
  for (const PrecisionOptions &precision :
       {kBf16, kFp16, kMixed, PrecisionOptions{StoragePrecision::Bf16, StateFormat::Bf16, {}},
        PrecisionOptions{StoragePrecision::Bf16, StateFormat::Fp32, {"^embed"}}})
    for (bool tied : {false, true})
      for (unsigned zero = 0; zero < 4; ++zero) {
        const bool withKernels = zero == (tied ? 3 : 0);
        const plan::Plan plan = narrowPlan(zero, precision, tied, withKernels);
        EXPECT_TRUE(!withKernels || validatePlan(plan).isOk()) << validatePlan(plan).message();
        EXPECT_EQ(plan.remarks_size(), 0);
        for (const plan::Program &program : plan.programs())
          for (const plan::Step &step : program.steps())
            EXPECT_FALSE(step.has_copy()) << zero << ": " << step.name();
      }
}

TEST(NarrowPlan, SlotsHaveTheTypesOfThePolicy) {
  for (unsigned zero = 0; zero < 4; ++zero)
    for (const PrecisionOptions &precision : {kBf16, kFp16}) {
      const plan::Plan plan = narrowPlan(zero, precision);
      const plan::DataType narrow = precision.precision == StoragePrecision::Bf16 ? plan::BF16 : plan::F16;
      for (const plan::Bucket &bucket : plan.buckets()) {
        EXPECT_EQ(slotOf(plan, bucket.parameter_slot()).type(), narrow);
        EXPECT_EQ(slotOf(plan, bucket.states(0).slot()).type(), plan::F32);
        ASSERT_NE(bucket.master_slot(), kAbsent);
        const plan::Slot &master = slotOf(plan, bucket.master_slot());
        EXPECT_EQ(master.type(), narrow == plan::BF16 ? plan::I16 : plan::F32);
        EXPECT_EQ(master.slot_class(), plan::OPTIMIZER);
        EXPECT_EQ(master.size().kind(), zero >= 1 ? SizeForm::SHARD : SizeForm::FULL);
        const plan::Slot &gradient = slotOf(plan, bucket.gradient_slot());
        EXPECT_EQ(gradient.type(), narrow);
        EXPECT_EQ(gradient.size().kind(), zero <= 1 ? SizeForm::FULL : SizeForm::SHARD);
        ASSERT_NE(gradient.same_as_if_accumulating(), 0u);
        const plan::Slot &wide = slotOf(plan, gradient.same_as_if_accumulating() - 1);
        EXPECT_TRUE(wide.accumulator());
        EXPECT_EQ(wide.size().kind(), gradient.size().kind());
      }
      unsigned wholeBuckets = 0, shards = 0;
      for (const plan::Step &step : plan.programs(0).steps()) {
        if (step.has_narrow()) {
          const bool isShard = slotOf(plan, step.operands(1).slot()).size().kind() == SizeForm::SHARD;
          ++(isShard ? shards : wholeBuckets);
          EXPECT_EQ(step.only_last_microstep(), zero <= 1 || isShard) << step.name();
          EXPECT_EQ(step.narrow().to(), narrow);
        }
        if (step.has_collective())
          EXPECT_EQ(step.collective().type(), narrow) << step.name();
      }
      EXPECT_EQ(wholeBuckets, unsigned(plan.buckets_size())) << "each gradient is rounded once before it is sent";
      EXPECT_EQ(shards, zero <= 1 ? 0u : unsigned(plan.buckets_size())) << "and once where shards have added up";
    }
}

TEST(NarrowPlan, WhatThePolicyKeepsHasBucketsOfItsOwn) {
  const plan::Plan plan = narrowPlan(2, kMixed);
  unsigned kept = 0;
  for (const plan::Parameter &parameter : plan.parameters()) {
    const plan::Bucket &bucket = plan.buckets(static_cast<int>(parameter.bucket()));
    const bool isKept = parameter.name() == "layers.0.q_proj.weight";
    kept += isKept;
    EXPECT_EQ(parameter.type(), isKept ? plan::F32 : plan::BF16) << parameter.name();
    EXPECT_EQ(bucket.name().ends_with("_f32"), isKept) << bucket.name();
    EXPECT_EQ(bucket.master_slot() == kAbsent, isKept) << bucket.name();
  }
  EXPECT_EQ(kept, 1u);
}

TEST(NarrowPlan, BytesOnTheWireAreThoseOfTheNarrowType) {
  for (unsigned zero = 0; zero < 4; ++zero) {
    const plan::Plan wide = compilePlan(false, false, zero), narrow = narrowPlan(zero, kBf16);
    for (uint32_t world : {2u, 3u, 8u})
      for (uint32_t accumulate : {1u, 4u}) {
        const PlanShape shape{world, accumulate, 1};
        EXPECT_EQ(2 * sentBytes(narrow, shape).parametersAndGradients(),
                  sentBytes(wide, shape).parametersAndGradients())
            << zero << " on " << world;
      }
  }
}

TEST(NarrowPlan, MemoryFollowsTheArithmetic) {
  for (unsigned zero = 0; zero < 4; ++zero) {
    const plan::Plan plan = narrowPlan(zero, kBf16);
    for (uint32_t world = 1; world <= 8; ++world)
      for (uint32_t accumulate : {1u, 2u}) {
        StatusOr<MemoryPlan> memory = planMemory(plan, {world, accumulate, 2});
        ASSERT_TRUE(memory.isOk()) << memory.status().message();
        uint64_t parameters = 0, states = 0;
        for (const plan::Bucket &bucket : plan.buckets()) {
          const uint64_t shard = shardElements(bucket.elements(), world), full = shard * world;
          const uint64_t kept = zero >= 1 ? shard : full;
          parameters += roundUp(2 * (zero == 3 ? shard : full), 256);
          states += roundUp(2 * kept, 256) + 2 * roundUp(4 * kept, 256);
          // Gradients as the update finds them: narrow where they were reduced in the end, inside what added them up.
          const uint64_t held = zero <= 1 ? full : shard;
          const SlotPlacement gradient = memory->slots[bucket.gradient_slot()];
          EXPECT_EQ(gradient.bytes, roundUp(2 * held, 256)) << bucket.name();
          const SlotPlacement sum = memory->slots[slotOf(plan, bucket.gradient_slot()).same_as_if_accumulating() - 1];
          EXPECT_EQ(sum.bytes, roundUp(4 * held, 256));
          EXPECT_EQ(sum.offset == gradient.offset, accumulate > 1) << bucket.name();
        }
        EXPECT_EQ(memory->byClass[0], parameters) << zero << " on " << world;
        EXPECT_EQ(memory->byClass[3], states) << zero << " on " << world;
      }
  }
}

} // namespace
