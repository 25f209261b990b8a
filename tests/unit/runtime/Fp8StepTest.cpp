// Which records of fp8 steps are valid, each clause broken once; their texts.
#include "tests/unit/runtime/StepDamage.h"

namespace ztc {
namespace {

using namespace test;

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

/// The absolute maxima of 64 parts of x are given.
plan::Plan givenPlan() {
  plan::Plan plan = quantizePlan();
  plan::Step &step = *plan.mutable_programs(0)->mutable_steps(0);
  step.add_operands()->set_bytes(128);
  return plan;
}

/// The scale is known, and the last operand is the absolute maximum.
plan::Plan knownPlan() {
  plan::Plan plan = quantizePlan();
  plan::Step &step = *plan.mutable_programs(0)->mutable_steps(0);
  step.mutable_quantize_fp8()->set_known_scale(true);
  step.mutable_quantize_fp8()->set_accumulate(plan::ADD_UNLESS_FIRST);
  step.mutable_operands(2)->set_bytes(4); // of one block
  step.add_operands()->set_bytes(4);
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

/// Slots: numbers, a shard of a bucket of 1024 bf16, a whole bucket of codes.
plan::Plan shardPlan(plan::DataType to) {
  plan::Plan plan;
  for (auto [name, kind, bytes] : {std::tuple("numbers", plan::SizeForm::CONSTANT, 4u),
                                   {"shard", plan::SizeForm::SHARD, 2u},
                                   {"codes", plan::SizeForm::FULL, 1u}}) {
    plan::Slot &slot = *plan.add_slots();
    slot.set_name(name);
    slot.mutable_size()->set_kind(kind);
    slot.mutable_size()->set_elements(1024);
    slot.mutable_size()->set_element_bytes(bytes);
  }
  plan::Step &step = *plan.add_programs()->add_steps();
  plan::ShardFp8 &call = *step.mutable_shard_fp8();
  for (int64_t number : {0, 0, 512, 0, 512, 1024})
    call.add_ranges(number);
  call.set_from(plan::BF16);
  call.set_to(to);
  for (uint64_t bytes : {uint64_t(8), uint64_t(4096)})
    step.add_operands()->set_bytes(bytes);
  step.add_operands()->set_slot(1);
  if (to == plan::F32)
    return plan;
  step.add_operands()->set_slot(2);
  step.mutable_operands(3)->set_own_shard(true);
  for (int scale = 0; scale < 2; ++scale)
    step.add_operands()->set_bytes(8);
  return plan;
}
plan::Plan shardMaximaPlan() {
  return shardPlan(plan::F32);
}
plan::Plan shardCodesPlan() {
  return shardPlan(plan::E4M3);
}

plan::Plan transposePlan() {
  plan::Plan plan = planOf(2, 4096);
  stepOf(plan).mutable_transpose_codes()->set_rows(32);
  stepOf(plan).mutable_transpose_codes()->set_columns(64);
  return plan;
}

/// The absolute maxima of 32 rows are given.
plan::Plan notePlan() {
  plan::Plan plan = transposePlan();
  stepOf(plan).mutable_transpose_codes()->set_maxima(plan::BF16);
  stepOf(plan).mutable_transpose_codes()->set_accumulate(plan::ADD_UNLESS_FIRST);
  stepOf(plan).add_operands()->set_bytes(64);
  stepOf(plan).add_operands()->set_bytes(4);
  return plan;
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
          {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "4 operands, 5"},
          {"x", [](plan::Step &s) { s.mutable_quantize_fp8()->set_rows(48); }, "(x) has 4096 bytes, 6144"},
          {"overflow", [](plan::Step &s) { s.mutable_quantize_fp8()->set_rows(uint64_t(1) << 60); }, "overflows"},
          {"scale", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(4); }, "(scale) has 4 bytes, 8"},
          {"maxima", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(64); }, "(maxima) has 64 bytes, 4096"},
          {"codes", [](plan::Step &s) { s.mutable_operands(4)->set_bytes(64); }, "(codes) has 64 bytes, 2048"},
          {"kernels", [](plan::Step &s) { s.mutable_quantize_fp8()->add_gpu_kernels(0); }, "1 kernels for GPUs, 2"},
      });
}

TEST(Fp8Steps, QuantizeRecordsWithMaximaAreChecked) {
  expectRefused(givenPlan,
                {
                    {"operands", [](plan::Step &s) { s.add_operands()->set_bytes(128); }, "7 operands, 6"},
                    {"codes", [](plan::Step &s) { s.mutable_operands(4)->set_bytes(64); }, "(codes) has 64 bytes"},
                    {"count", [](plan::Step &s) { s.mutable_operands(5)->set_bytes(40); }, "maxima of 40 bytes"},
                    {"no count", [](plan::Step &s) { s.mutable_operands(5)->clear_bytes(); }, "maxima of 0 bytes"},
                });
}

TEST(Fp8Steps, QuantizeRecordsOfKnownScalesAreChecked) {
  expectRefused(
      knownPlan,
      {
          {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "5 operands, 6"},
          {"scale", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(4); }, "(scale) has 4 bytes, 8"},
          {"blocks", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(2); }, "(maxima) has 2 bytes, 4"},
          {"maximum", [](plan::Step &s) { s.mutable_operands(5)->set_bytes(2); }, "(absolute maximum) has 2 bytes, 4"},
          {"accumulation",
           [](plan::Step &s) { s.mutable_quantize_fp8()->set_accumulate(static_cast<plan::Accumulate>(9)); },
           "unknown accumulation"},
          {"unknown scale", [](plan::Step &s) { s.mutable_quantize_fp8()->set_known_scale(false); },
           "a scale of their own"},
          {"kernels", [](plan::Step &s) { s.mutable_quantize_fp8()->add_gpu_kernels(0); }, "1 kernels for GPUs, 2"},
      });
}

TEST(Fp8Steps, GivenMaximaSaveAPassOverTheMatrix) {
  const auto bytesOf = [](plan::Plan plan) {
    return definitionOf(stepOf(plan))->bytes({plan, stepOf(plan), [](uint32_t) { return uint64_t(4096); }, 1, 1, true});
  };
  EXPECT_EQ(bytesOf(quantizePlan()), 32u * 64 * (2 + 2 + 1 + 1));
  EXPECT_EQ(bytesOf(givenPlan()), 32u * 64 * (2 + 1 + 1) + 64 * 2);
  EXPECT_EQ(bytesOf(knownPlan()), 32u * 64 * (2 + 1 + 1));
}

TEST(Fp8Steps, ProductRecordsAreChecked) {
  expectRefused(
      productPlan,
      {
          {"operands", [](plan::Step &s) { s.add_operands()->set_bytes(128); }, "7 operands, 6"},
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

TEST(Fp8Steps, MaximaOfShardsAreChecked) {
  expectRefused(
      shardMaximaPlan,
      {
          {"from", [](plan::Step &s) { s.mutable_shard_fp8()->set_from(plan::E4M3); }, "unsuitable type"},
          {"to", [](plan::Step &s) { s.mutable_shard_fp8()->set_to(plan::E5M2); }, "codes of type 13 of a shard"},
          {"no ranges", [](plan::Step &s) { s.mutable_shard_fp8()->clear_ranges(); }, "0 numbers of ranges"},
          {"half a range", [](plan::Step &s) { s.mutable_shard_fp8()->add_ranges(0); }, "7 numbers of ranges"},
          {"no shards", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "2 operands, of 2 ranges"},
          {"maxima", [](plan::Step &s) { s.mutable_operands(0)->set_bytes(4); }, "(maxima) has 4 bytes, 8"},
          {"first", [](plan::Step &s) { s.mutable_shard_fp8()->set_first(1); }, "(maxima) has 8 bytes, 12"},
          {"workspace", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(64); }, "(workspace) has 64 bytes, 4096"},
          {"no shard", [](plan::Step &s) { s.mutable_operands(2)->set_slot(0); }, "operand 2 is not a rank's shard"},
          {"a piece", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(64); }, "operand 2 is not a rank's shard"},
          {"operand", [](plan::Step &s) { s.mutable_shard_fp8()->set_ranges(3, 1); }, "512 to 1024 of operand 1"},
          {"empty", [](plan::Step &s) { s.mutable_shard_fp8()->set_ranges(2, 0); }, "the range 0 to 0"},
          {"negative", [](plan::Step &s) { s.mutable_shard_fp8()->set_ranges(1, -16); }, "to 512 of operand 0"},
          {"grain", [](plan::Step &s) { s.mutable_shard_fp8()->set_ranges(1, 8); }, "the range 8 to 512"},
          {"end", [](plan::Step &s) { s.mutable_shard_fp8()->set_ranges(5, 1040); }, "the range 512 to 1040"},
          {"kernels", [](plan::Step &s) { s.mutable_shard_fp8()->add_gpu_kernels(0); }, "1 kernels for GPUs, 2"},
      });
}

TEST(Fp8Steps, CodesOfAShardAreChecked) {
  expectRefused(shardCodesPlan,
                {
                    {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "5 operands, of 2 ranges"},
                    {"tile", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(8); }, "(workspace) has 8 bytes, 16"},
                    {"codes", [](plan::Step &s) { s.mutable_operands(3)->set_own_shard(false); }, "the codes are not"},
                    {"slot", [](plan::Step &s) { s.mutable_operands(3)->set_slot(0); }, "the codes are not"},
                    {"scale", [](plan::Step &s) { s.mutable_operands(5)->set_bytes(4); }, "(scale) has 4 bytes, 8"},
                });
}

TEST(Fp8Steps, TransposedCodesAreChecked) {
  expectRefused(
      transposePlan,
      {
          {"rows", [](plan::Step &s) { s.mutable_transpose_codes()->set_rows(40); }, "multiples of 16"},
          {"no columns", [](plan::Step &s) { s.mutable_transpose_codes()->clear_columns(); }, "multiples of 16"},
          {"operands", [](plan::Step &s) { s.add_operands()->set_bytes(128); }, "3 operands, 2"},
          {"codes", [](plan::Step &s) { s.mutable_operands(0)->set_bytes(64); }, "(codes) has 64 bytes, 2048"},
          {"result", [](plan::Step &s) { s.mutable_operands(1)->set_bytes(64); }, "(transposed codes) has 64 bytes"},
      });
}

TEST(Fp8Steps, TransposedCodesWithMaximaAreChecked) {
  expectRefused(
      notePlan,
      {
          {"operands", [](plan::Step &s) { s.mutable_operands()->RemoveLast(); }, "3 operands, 4"},
          {"type", [](plan::Step &s) { s.mutable_transpose_codes()->set_maxima(plan::E4M3); }, "unsuitable type"},
          {"count", [](plan::Step &s) { s.mutable_operands(2)->set_bytes(40); }, "maxima of 40 bytes"},
          {"no count", [](plan::Step &s) { s.mutable_operands(2)->clear_bytes(); }, "maxima of 0 bytes"},
          {"maximum", [](plan::Step &s) { s.mutable_operands(3)->set_bytes(2); }, "(absolute maximum) has 2 bytes, 4"},
          {"accumulation",
           [](plan::Step &s) { s.mutable_transpose_codes()->set_accumulate(static_cast<plan::Accumulate>(9)); },
           "unknown accumulation"},
          {"kernels",
           [](plan::Step &s) {
             s.mutable_transpose_codes()->add_gpu_kernels(0);
             s.mutable_transpose_codes()->add_gpu_kernels(0);
           },
           "2 kernels for GPUs, 1"},
      });
}

TEST(Fp8Steps, Texts) {
  plan::Plan quantize = quantizePlan(), given = givenPlan(), product = productPlan();
  EXPECT_EQ(textOf(quantize), "quantize 32x64 bf16 to e4m3 by both");
  EXPECT_EQ(textOf(given), "quantize 32x64 bf16 to e4m3 by both, given amax");
  EXPECT_EQ(textOf(product), "gemm 32x64x48 bT e5m2 e4m3 -> bf16");
  plan::Plan maxima = shardMaximaPlan(), codes = shardCodesPlan(), transpose = transposePlan();
  EXPECT_EQ(textOf(maxima), "amax of 2 ranges of shards bf16");
  EXPECT_EQ(textOf(codes), "quantize shard bf16 to e4m3, 2 scales");
  EXPECT_EQ(textOf(transpose), "transpose 32x64 codes");
  plan::Plan known = knownPlan(), note = notePlan();
  EXPECT_EQ(textOf(known), "quantize 32x64 bf16 to e4m3 by both, known scale");
  EXPECT_EQ(textOf(note), "transpose 32x64 codes, note amax");
}

} // namespace
} // namespace ztc
