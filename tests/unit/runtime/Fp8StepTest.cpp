// Which records of fp8 steps are valid, each clause broken once; their texts.
#include "runtime/Format/Steps/StepDefinition.h"
#include <functional>
#include <gtest/gtest.h>

namespace ztc {
namespace {

/// One slot, which holds the largest operand, under every operand.
plan::Plan planOf(int operands, uint64_t bytes) {
  plan::Plan plan;
  plan.add_slots()->set_name("slot");
  plan::Step &step = *plan.add_programs()->add_steps();
  for (int i = 0; i < operands; ++i)
    step.add_operands()->set_bytes(bytes);
  return plan;
}

plan::Plan quantizePlan() {
  plan::Plan plan = planOf(5, 4096);
  plan::QuantizeFp8 &call = *plan.mutable_programs(0)->mutable_steps(0)->mutable_quantize_fp8();
  call.set_rows(32);
  call.set_columns(64);
  call.set_from(plan::BF16);
  call.set_to(plan::E4M3);
  call.set_by_rows(true);
  call.set_by_columns(true);
  return plan;
}

plan::Plan productPlan() {
  plan::Plan plan = planOf(6, 4096);
  plan::ScaledGemm &gemm = *plan.mutable_programs(0)->mutable_steps(0)->mutable_scaled_gemm();
  gemm.set_m(32);
  gemm.set_n(64);
  gemm.set_k(48);
  gemm.set_type_a(plan::E5M2);
  gemm.set_type_b(plan::E4M3);
  gemm.set_type_c(plan::BF16);
  return plan;
}

plan::Step &stepOf(plan::Plan &plan) {
  return *plan.mutable_programs(0)->mutable_steps(0);
}

Status validate(plan::Plan &plan) {
  const std::vector<uint64_t> slots{4096};
  return definitionOf(stepOf(plan))->validate(StepCheck(plan, slots, stepOf(plan)));
}

struct Damage {
  const char *name;
  std::function<void(plan::Step &)> apply;
  const char *expected;
};

void expectRefused(plan::Plan (*make)(), const std::vector<Damage> &damages) {
  plan::Plan whole = make();
  EXPECT_TRUE(validate(whole).isOk()) << validate(whole).message();
  for (const auto &[name, apply, expected] : damages) {
    plan::Plan plan = make();
    apply(stepOf(plan));
    const Status status = validate(plan);
    EXPECT_EQ(status.code(), StatusCode::DataLoss) << name;
    EXPECT_NE(status.message().find(expected), std::string::npos) << name << ": " << status.message();
  }
}

TEST(Fp8Steps, QuantizeRecordsAreChecked) {
  expectRefused(
      quantizePlan,
      {
          {"from", [](plan::Step &s) { s.mutable_quantize_fp8()->set_from(plan::E4M3); }, "unsuitable type"},
          {"to", [](plan::Step &s) { s.mutable_quantize_fp8()->set_to(plan::BF16); }, "fp8 codes of type 2"},
          {"order",
           [](plan::Step &s) {
             s.mutable_quantize_fp8()->set_by_rows(false);
             s.mutable_quantize_fp8()->set_by_columns(false);
           },
           "in no order"},
          {"rows", [](plan::Step &s) { s.mutable_quantize_fp8()->set_rows(40); }, "multiples of 16"},
          {"no columns", [](plan::Step &s) { s.mutable_quantize_fp8()->clear_columns(); }, "multiples of 16"},
          {"operands", [](plan::Step &s) { s.mutable_quantize_fp8()->set_by_rows(false); }, "5 operands, 4"},
          {"x", [](plan::Step &s) { s.mutable_quantize_fp8()->set_rows(48); }, "(x) has 4096 bytes, 6144"},
          {"overflow", [](plan::Step &s) { s.mutable_quantize_fp8()->set_rows(uint64_t(1) << 60); }, "overflows"},
          {"scale", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(4); }, "(scale) has 4 bytes, 8"},
          {"maxima", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(64); }, "(maxima) has 64 bytes, 4096"},
          {"codes", [](plan::Step &s) { s.mutable_operands(4)->set_bytes(64); }, "(codes) has 64 bytes, 2048"},
          {"kernels", [](plan::Step &s) { s.mutable_quantize_fp8()->add_gpu_kernels(0); }, "1 kernels for GPUs, 2"},
      });
}

TEST(Fp8Steps, ProductRecordsAreChecked) {
  expectRefused(
      productPlan,
      {
          {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "5 operands, 6"},
          {"types", [](plan::Step &s) { s.mutable_scaled_gemm()->set_type_a(plan::BF16); }, "types bf16 and e4m3"},
          {"e5m2 twice", [](plan::Step &s) { s.mutable_scaled_gemm()->set_type_b(plan::E5M2); }, "types e5m2 and e5m2"},
          {"result", [](plan::Step &s) { s.mutable_scaled_gemm()->set_type_c(plan::E4M3); }, "unsuitable type"},
          {"adds", [](plan::Step &s) { s.mutable_scaled_gemm()->set_accumulate(plan::ADD); }, "is added to bf16"},
          {"accumulation",
           [](plan::Step &s) { s.mutable_scaled_gemm()->set_accumulate(static_cast<plan::Accumulate>(9)); },
           "unknown accumulation"},
          {"m", [](plan::Step &s) { s.mutable_scaled_gemm()->set_m(8); }, "multiples of 16"},
          {"no k", [](plan::Step &s) { s.mutable_scaled_gemm()->clear_k(); }, "multiples of 16"},
          {"a", [](plan::Step &s) { s.mutable_scaled_gemm()->set_m(96); }, "(a) has 4096 bytes, 4608"},
          {"b", [](plan::Step &s) { s.mutable_scaled_gemm()->set_n(96); }, "(b) has 4096 bytes, 4608"},
          {"scale of a", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(4); }, "(the scale of a)"},
          {"scale of b", [](plan::Step &s) { s.mutable_operands(3)->set_bytes(4); }, "(the scale of b)"},
          {"c", [](plan::Step &s) { s.mutable_operands(4)->set_bytes(64); }, "(c) has 64 bytes, 4096"},
      });
}

TEST(Fp8Steps, Texts) {
  plan::Plan quantize = quantizePlan(), product = productPlan();
  const auto text = [](plan::Plan &plan) { return definitionOf(stepOf(plan))->text(plan, stepOf(plan)); };
  EXPECT_EQ(text(quantize), "quantize 32x64 bf16 to e4m3 by both");
  EXPECT_EQ(text(product), "gemm 32x64x48 bT e5m2 e4m3 -> bf16");
}

} // namespace
} // namespace ztc
