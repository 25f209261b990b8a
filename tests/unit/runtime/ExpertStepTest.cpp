// Which records of routed experts are valid, each clause broken once; their texts and families.
#include "tests/unit/runtime/StepDamage.h"

namespace ztc {
namespace {

using namespace test;

/// Two choices of each of 16 tokens, of 4 experts.
plan::Plan routePlan() {
  plan::Plan plan = planOf(4, 128);
  plan::Route &route = *stepOf(plan).mutable_route();
  route.set_tokens(16);
  route.set_choices(2);
  route.set_experts(4);
  return plan;
}

/// 32 rows of 80 bytes, two of each of 16.
plan::Plan dispatchPlan() {
  plan::Plan plan = planOf(3, 2560);
  plan::Gather &gather = *stepOf(plan).mutable_gather();
  gather.set_rows(32);
  gather.set_row_bytes(80);
  gather.set_table_rows(16);
  gather.set_divisor(2);
  return plan;
}

plan::Plan combinePlan() {
  plan::Plan plan = planOf(3, 2560);
  plan::Combine &combine = *stepOf(plan).mutable_combine();
  combine.set_rows(16);
  combine.set_choices(2);
  combine.set_width(40);
  combine.set_type(plan::BF16);
  return plan;
}

plan::Plan groupedPlan(int operands, plan::DataType type) {
  plan::Plan plan = planOf(operands, 2560);
  plan::GroupedGemm &gemm = *stepOf(plan).mutable_grouped_gemm();
  gemm.set_rows(16);
  gemm.set_n(20);
  gemm.set_k(8);
  gemm.set_groups(4);
  gemm.set_type_a(type);
  gemm.set_type_c(type);
  return plan;
}
plan::Plan groupedMatmulPlan() {
  plan::Plan plan = groupedPlan(4, plan::F32);
  stepOf(plan).mutable_grouped_gemm()->set_transpose_b(true);
  return plan;
}
plan::Plan groupedOuterPlan() {
  plan::Plan plan = groupedPlan(5, plan::BF16);
  stepOf(plan).mutable_grouped_gemm()->set_outer(true);
  stepOf(plan).mutable_grouped_gemm()->set_type_c(plan::F32);
  stepOf(plan).mutable_grouped_gemm()->set_accumulate(plan::ADD_UNLESS_FIRST);
  return plan;
}

TEST(ExpertSteps, RouteRecordsAreChecked) {
  expectRefused(
      routePlan,
      {
          {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "3 operands, 4"},
          {"no tokens", [](plan::Step &s) { s.mutable_route()->clear_tokens(); }, "2 choices of each of 0 tokens"},
          {"no choices", [](plan::Step &s) { s.mutable_route()->clear_choices(); }, "0 choices of each of 16 tokens"},
          {"rows", [](plan::Step &s) { s.mutable_route()->set_tokens(uint64_t(1) << 30); }, "of 1073741824 tokens"},
          {"overflow", [](plan::Step &s) { s.mutable_route()->set_tokens(uint64_t(1) << 63); }, "choices of each of"},
          {"no experts", [](plan::Step &s) { s.mutable_route()->clear_experts(); }, "a choice of 0 experts"},
          {"experts", [](plan::Step &s) { s.mutable_route()->set_experts(UINT64_MAX); }, "a choice of 1844674407"},
          {"choices", [](plan::Step &s) { s.mutable_operands(0)->set_bytes(64); }, "(choices) has 64 bytes, 128"},
          {"order", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(64); }, "(order) has 64 bytes, 128"},
          {"places", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(64); }, "(places) has 64 bytes, 128"},
          {"starts", [](plan::Step &s) { s.mutable_operands(3)->set_bytes(16); }, "(starts) has 16 bytes, 20"},
      });
}

TEST(ExpertSteps, DispatchRecordsAreChecked) {
  expectRefused(
      dispatchPlan,
      {
          {"operands", [](plan::Step &s) { s.add_operands()->set_bytes(4); }, "4 operands, 3"},
          {"divisor", [](plan::Step &s) { s.mutable_gather()->set_divisor(uint64_t(1) << 31); },
           "rows by index divided by 2147483648"},
          {"table", [](plan::Step &s) { s.mutable_operands(0)->set_bytes(64); }, "(table) has 64 bytes, 1280"},
          {"indices", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(64); }, "(indices) has 64 bytes, 128"},
          {"result", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(64); }, "(result) has 64 bytes, 2560"},
      });
}

TEST(ExpertSteps, CombineRecordsAreChecked) {
  expectRefused(
      combinePlan,
      {
          {"type", [](plan::Step &s) { s.mutable_combine()->set_type(plan::I32); }, "unsuitable type"},
          {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "2 operands, 3"},
          {"no tokens", [](plan::Step &s) { s.mutable_combine()->clear_rows(); }, "sums of 2 rows of 40 for each of 0"},
          {"no choices", [](plan::Step &s) { s.mutable_combine()->clear_choices(); }, "sums of 0 rows"},
          {"no width", [](plan::Step &s) { s.mutable_combine()->clear_width(); }, "rows of 0 for"},
          {"overflow", [](plan::Step &s) { s.mutable_combine()->set_choices(uint64_t(1) << 60); }, "overflows"},
          {"x", [](plan::Step &s) { s.mutable_operands(0)->set_bytes(64); }, "(x) has 64 bytes, 2560"},
          {"places", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(64); }, "(places) has 64 bytes, 128"},
          {"result", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(64); }, "(result) has 64 bytes, 1280"},
      });
}

TEST(ExpertSteps, GroupedProductRecordsAreChecked) {
  expectRefused(
      groupedMatmulPlan,
      {
          {"type", [](plan::Step &s) { s.mutable_grouped_gemm()->set_type_a(plan::I32); },
           "grouped product of type i32"},
          {"fp8", [](plan::Step &s) { s.mutable_grouped_gemm()->set_type_a(plan::E4M3); }, "of type e4m3 into f32"},
          {"result", [](plan::Step &s) { s.mutable_grouped_gemm()->set_type_c(plan::BF16); }, "of type f32 into bf16"},
          {"operands", [](plan::Step &s) { s.add_operands()->set_bytes(64); }, "5 operands, 4"},
          {"accumulation",
           [](plan::Step &s) { s.mutable_grouped_gemm()->set_accumulate(static_cast<plan::Accumulate>(9)); },
           "unknown accumulation"},
          {"adds", [](plan::Step &s) { s.mutable_grouped_gemm()->set_accumulate(plan::ADD); }, "adds to its result"},
          {"transposed", [](plan::Step &s) { s.mutable_grouped_gemm()->set_outer(true); }, "a transposed factor"},
          {"no rows", [](plan::Step &s) { s.mutable_grouped_gemm()->clear_rows(); }, "of size 0 x 20 x 8 in 4 groups"},
          {"no n", [](plan::Step &s) { s.mutable_grouped_gemm()->clear_n(); }, "of size 16 x 0 x 8"},
          {"no k", [](plan::Step &s) { s.mutable_grouped_gemm()->clear_k(); }, "of size 16 x 20 x 0"},
          {"no groups", [](plan::Step &s) { s.mutable_grouped_gemm()->clear_groups(); }, "in 0 groups"},
          {"rows", [](plan::Step &s) { s.mutable_grouped_gemm()->set_rows(uint64_t(1) << 31); }, "of size 2147483648"},
          {"groups", [](plan::Step &s) { s.mutable_grouped_gemm()->set_groups(INT32_MAX); }, "in 2147483647 groups"},
          {"overflow", [](plan::Step &s) { s.mutable_grouped_gemm()->set_n(uint64_t(1) << 60); }, "overflows"},
          {"a", [](plan::Step &s) { s.mutable_operands(0)->set_bytes(64); }, "(a) has 64 bytes, 512"},
          {"b", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(64); }, "(b) has 64 bytes, 2560"},
          {"starts", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(16); }, "(starts) has 16 bytes, 20"},
          {"c", [](plan::Step &s) { s.mutable_operands(3)->set_bytes(64); }, "(c) has 64 bytes, 1280"},
      });
}

TEST(ExpertSteps, RecordsOfOuterProductsAreChecked) {
  expectRefused(
      groupedOuterPlan,
      {
          {"scratch", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "4 operands, 5"},
          {"result", [](plan::Step &s) { s.mutable_grouped_gemm()->set_type_c(plan::F16); }, "of type bf16 into f16"},
          {"a", [](plan::Step &s) { s.mutable_operands(0)->set_bytes(64); }, "(a) has 64 bytes, 256"},
          {"b", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(64); }, "(b) has 64 bytes, 640"},
          {"c", [](plan::Step &s) { s.mutable_operands(3)->set_bytes(64); }, "(c) has 64 bytes, 2560"},
      });
}

// The name of one kernel is the beginning of another one's.
TEST(ExpertSteps, KernelsForGpusAreThoseOfTheTypes) {
  const auto with = [](std::vector<std::string> names) {
    plan::Plan plan = groupedOuterPlan();
    for (const std::string &name : names) {
      stepOf(plan).mutable_grouped_gemm()->add_gpu_kernels(uint32_t(plan.kernels_size()));
      plan::Kernel &kernel = *plan.add_kernels();
      kernel.set_name(name);
      kernel.set_form("service");
    }
    return validate(plan);
  };
  const std::string wide = "gpu_grouped_gemm_outer_bf16_f32_cut", narrow = "gpu_grouped_gemm_outer_bf16_cut";
  EXPECT_TRUE(with({wide, narrow}).isOk()) << with({wide, narrow}).message();
  EXPECT_TRUE(with({wide + "_2", narrow + "_2"}).isOk()) << "a name that was taken has a number";
  EXPECT_EQ(with({wide}).message(), "1 kernels for GPUs, 2 are needed");
  for (const std::string &other : {wide, narrow + "_more", std::string("gpu_grouped_gemm_outer_bf16")})
    EXPECT_EQ(with({wide, other}).message(), "kernel 1 '" + other + "' is not the service kernel " + narrow);
}

TEST(ExpertSteps, Texts) {
  EXPECT_EQ(textOf(routePlan()), "route 16x2 choices to 4 experts");
  EXPECT_EQ(textOf(dispatchPlan()), "gather 32 rows of 80 bytes, 2 choices each");
  EXPECT_EQ(textOf(combinePlan()), "combine 16x2 rows of 40 bf16");
  EXPECT_EQ(textOf(groupedMatmulPlan()), "grouped_gemm 4 16x20x8 bT");
  EXPECT_EQ(textOf(groupedOuterPlan()), "grouped_gemm 4 8x20x16 outer bf16 -> f32 += (first micro-step: =)");
}

TEST(ExpertSteps, FamiliesTellRoutingFromTheEmbedding) {
  const auto familyOf = [](plan::Plan plan) { return std::string(definitionOf(stepOf(plan))->family(stepOf(plan))); };
  EXPECT_EQ(familyOf(routePlan()), "routing");
  EXPECT_EQ(familyOf(dispatchPlan()), "routing");
  EXPECT_EQ(familyOf(combinePlan()), "routing");
  EXPECT_EQ(familyOf(groupedMatmulPlan()), "matrix products");
  plan::Plan embedding = dispatchPlan();
  stepOf(embedding).mutable_gather()->clear_divisor();
  EXPECT_EQ(familyOf(embedding), "embedding");
}

} // namespace
} // namespace ztc
