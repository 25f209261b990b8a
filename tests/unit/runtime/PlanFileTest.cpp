// Plan files: round trip, every way of being damaged, and the validator against plans broken one fact at a time.
#include "runtime/Format/PlanFile.h"
#include "Scratch.h"
#include <csignal>
#include <functional>
#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/resource.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

TEST(PlanFile, RoundTripIsExactAndDeterministic) {
  const Scratch scratch;
  const plan::Plan plan = smallPlan();
  ASSERT_OK(validatePlan(plan));
  ASSERT_OK(writePlanFile(plan, scratch.path("a.bin")));
  ASSERT_OK(writePlanFile(plan, scratch.path("b.bin")));
  EXPECT_EQ(*readWholeFile(scratch.path("a.bin")), *readWholeFile(scratch.path("b.bin")));
  StatusOr<LoadedPlan> loaded = readPlanFile(scratch.path("a.bin"));
  ASSERT_OK(loaded.status());
  EXPECT_EQ(loaded->sha256.size(), 64u);
  EXPECT_EQ(*serializePlan(loaded->plan), *serializePlan(plan));
}

TEST(PlanFile, DamagedFilesAreNamedByTheirDamage) {
  const Scratch scratch;
  const std::string good = *serializePlan(smallPlan());
  EXPECT_EQ(readPlanFile(scratch.path("none.bin")).status().code(), StatusCode::NotFound);
  EXPECT_THAT(readPlanFile(scratch.path("none.bin")).status().message(), HasSubstr("none.bin"));
  EXPECT_THAT(readPlanFile(scratch.path("")).status().message(), HasSubstr("a plan is a file"));
  const auto message = [&](const std::string &bytes) {
    const StatusOr<LoadedPlan> loaded = readPlanFile(scratch.write("plan.bin", bytes));
    EXPECT_FALSE(loaded.isOk());
    return loaded.status().message();
  };
  EXPECT_THAT(message(""), HasSubstr("not a plan"));
  EXPECT_THAT(message("hello, this is text"), HasSubstr("not a plan"));
  EXPECT_THAT(message(good.substr(0, 20)), HasSubstr("truncated"));
  EXPECT_THAT(message(good.substr(0, good.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(message(good + "x"), HasSubstr("corrupted"));
  std::string newer = good;
  newer[8] = 99;
  EXPECT_THAT(message(newer), HasSubstr("version 99"));
  std::string older = good;
  older[8] = 1;
  EXPECT_THAT(message(older), HasSubstr("version 1, this program reads " + std::to_string(kPlanFormatVersion)));
  for (size_t at : {size_t(30), kPlanHeaderBytes, good.size() - 1}) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    EXPECT_THAT(message(flipped), HasSubstr("corrupted")) << at;
  }
}

TEST(PlanFile, EveryTruncationAndEveryBitIsSeen) {
  const std::string good = *serializePlan(smallPlan());
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(parsePlan(std::string_view(good).substr(0, length), "p").isOk()) << length;
  for (size_t at = 0; at < good.size(); ++at) {
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    EXPECT_FALSE(parsePlan(flipped, "p").isOk()) << at;
  }
}

TEST(PlanFile, ADiskThatIsFullLeavesTheOldPlan) {
  const Scratch scratch;
  ASSERT_OK(writePlanFile(smallPlan(), scratch.path("plan.bin")));
  const std::string before = *readWholeFile(scratch.path("plan.bin"));
  plan::Plan larger = smallPlan();
  larger.add_remarks(std::string(100'000, 'x'));
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{50'000, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = writePlanFile(larger, scratch.path("plan.bin"));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted) << status.message();
  EXPECT_EQ(*readWholeFile(scratch.path("plan.bin")), before);
  EXPECT_EQ(listFolder(scratch.path())->size(), 1u) << "the temporary file is gone";
  EXPECT_FALSE(writePlanFile(smallPlan(), scratch.path("missing/plan.bin")).isOk());
}

struct BrokenPlan {
  const char *name;
  std::function<void(plan::Plan &)> spoil;
  const char *message;
};

TEST(PlanValidator, EachFactIsChecked) {
  const BrokenPlan cases[] = {
      {"batch", [](plan::Plan &p) { p.mutable_model()->set_batch(0); }, "batch is 0"},
      {"slot class", [](plan::Plan &p) { p.mutable_slots(0)->set_slot_class(plan::SLOT_CLASS_UNSPECIFIED); },
       "unknown class"},
      {"slot size", [](plan::Plan &p) { p.mutable_slots(0)->mutable_size()->set_elements(1ull << 61); }, "overflows"},
      {"kernel for GPUs",
       [](plan::Plan &p) {
         plan::Attention &attention = *p.mutable_programs(0)->mutable_steps(0)->mutable_attention();
         attention.set_type(plan::F32);
         attention.add_gpu_kernels(3);
       },
       "kernel 3"},
      {"bucket of another size on a GPU",
       [](plan::Plan &p) {
         p.mutable_slots(0)->mutable_size()->set_kind(plan::SizeForm::FULL);
         p.mutable_slots(0)->mutable_size()->set_gpu_elements(1);
       },
       "1 elements on a GPU"},
      {"slot form",
       [](plan::Plan &p) { p.mutable_slots(0)->mutable_size()->set_kind(static_cast<plan::SizeForm::Kind>(9)); },
       "size form"},
      {"slot shape", [](plan::Plan &p) { p.mutable_slots(0)->add_shape(-1); }, "shape"},
      {"bucket slot", [](plan::Plan &p) { p.mutable_buckets(0)->set_gradient_slot(99); }, "gradient slot 99"},
      {"bucket too large", [](plan::Plan &p) { p.mutable_buckets(0)->set_elements(65); }, "do not fit"},
      {"bucket decay", [](plan::Plan &p) { p.mutable_buckets(0)->set_decayed(36); }, "decayed"},
      {"parameter twice", [](plan::Plan &p) { p.mutable_parameters(1)->set_name("layers.0.weight"); }, "twice"},
      {"tied twice", [](plan::Plan &p) { p.mutable_parameters(1)->add_tied("lm_head.weight"); }, "twice"},
      {"parameter bucket", [](plan::Plan &p) { p.mutable_parameters(1)->set_bucket(2); }, "bucket 2"},
      {"parameter outside", [](plan::Plan &p) { p.mutable_parameters(2)->set_offset(31); }, "leaves its bucket"},
      {"parameter overlap", [](plan::Plan &p) { p.mutable_parameters(1)->set_offset(20); }, "share element"},
      {"parameter frozen", [](plan::Plan &p) { p.mutable_parameters(1)->set_trainable(false); },
       "frozen in a trainable"},
      {"source length",
       [](plan::Plan &p) {
         p.mutable_parameters(0)->mutable_source()->set_path("x");
         p.mutable_parameters(0)->mutable_source()->set_type(plan::F32);
         p.mutable_parameters(0)->mutable_source()->set_length(95);
       },
       "needs 24 elements"},
      {"constant", [](plan::Plan &p) { p.add_constants()->set_slot(99); }, "constant 0"},
      {"constant size", [](plan::Plan &p) { p.add_constants()->set_data(std::string(1000, 'x')); },
       "1000 bytes in slot 0"},
      {"binding", [](plan::Plan &p) { p.mutable_bindings()->set_loss(99); }, "binding loss"},
      {"binding size", [](plan::Plan &p) { p.mutable_model()->set_seq(1000), p.mutable_bindings()->set_tokens(0); },
       "binding tokens"},
      {"program", [](plan::Plan &p) { p.mutable_programs(0)->set_name("elsewhere"); }, "unknown name"},
      {"program twice", [](plan::Plan &p) { p.mutable_programs(1)->set_name("microstep"); }, "twice"},
      {"operand slot",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(0)->mutable_operands(0)->set_slot(99); }, "slot 99"},
      {"operand range",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(0)->mutable_operands(0)->set_offset(~0ull); },
       "leave slot"},
      {"operand end",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(0)->mutable_operands(0)->set_bytes(129); },
       "leave slot"},
      {"no kind", [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(0)->clear_kind(); }, "no kind"},
      {"gemm operands",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(1)->mutable_operands()->RemoveLast(); },
       "2 operands, 3"},
      {"gemm size", [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(1)->mutable_gemm()->set_m(5); },
       "160 are needed"},
      {"gemm stride", [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(1)->mutable_gemm()->set_lda(7); },
       "row stride 7"},
      {"gemm overflow",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(1)->mutable_gemm()->set_lda(1ull << 62); },
       "overflows"},
      {"gemm type", [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(1)->mutable_gemm()->clear_type_a(); },
       "unknown types"},
      {"gemm types",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(1)->mutable_gemm()->set_type_c(plan::BF16); },
       "product of f32 into bf16"},
      {"narrow gemm without scratch",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(1)->mutable_gemm()->set_type_a(plan::BF16); },
       "3 operands, 4"},
      {"gemm of f32 that adds an operand",
       [](plan::Plan &p) {
         plan::Step &step = *p.mutable_programs(0)->mutable_steps(1);
         for (int i = 0; i < 2; ++i)
           *step.add_operands() = plan::Operand(step.operands(2));
       },
       "f32 into f32 that adds an operand"},
      {"gemm with a bias that it lacks",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(1)->mutable_gemm()->set_bias(true); },
       "a bias that is not among the operands"},
      {"gemm with more than a matrix and no bias",
       [](plan::Plan &p) {
         plan::Step &step = *p.mutable_programs(0)->mutable_steps(1);
         for (int i = 0; i < 3; ++i)
           *step.add_operands() = plan::Operand(step.operands(2));
       },
       "6 operands, 5"},
      {"gemm with more than a matrix and a bias",
       [](plan::Plan &p) {
         plan::Step &step = *p.mutable_programs(0)->mutable_steps(1);
         for (int i = 0; i < 4; ++i)
           *step.add_operands() = plan::Operand(step.operands(2));
         step.mutable_gemm()->set_bias(true);
       },
       "7 operands, 6"},
      {"gemm with GELU and no bias",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(1)->mutable_gemm()->set_gelu(true); },
       "GELU of a matrix product without a bias"},
      {"gemm with GELU, a matrix and sums",
       [](plan::Plan &p) {
         plan::Step &step = *p.mutable_programs(0)->mutable_steps(1);
         for (int i = 0; i < 4; ++i)
           *step.add_operands() = plan::Operand(step.operands(2));
         step.mutable_gemm()->set_bias(true), step.mutable_gemm()->set_gelu(true);
       },
       "7 operands, 6"},
      {"gemms with a bias",
       [](plan::Plan &p) {
         plan::Step &step = *p.mutable_programs(0)->mutable_steps(1);
         for (int i = 0; i < 2; ++i)
           *step.add_operands() = plan::Operand(step.operands(2));
         step.mutable_gemm()->set_bias(true), step.mutable_gemm()->set_batch(2);
       },
       "a bias of several matrix products"},
      {"master without narrow parameters", [](plan::Plan &p) { p.mutable_buckets(0)->set_master_slot(0); },
       "masters of type f32 in slot 0 'block' beside parameters of type f32"},
      {"remainders beside f16",
       [](plan::Plan &p) {
         p.mutable_buckets(0)->set_master_slot(2);
         p.mutable_slots(0)->set_type(plan::F16), p.mutable_slots(2)->set_type(plan::I16);
       },
       "masters of type i16"},
      {"master slot", [](plan::Plan &p) { p.mutable_buckets(0)->set_master_slot(99); }, "master slot 99"},
      {"state slot", [](plan::Plan &p) { p.mutable_buckets(0)->mutable_states(0)->set_slot(99); }, "exp_avg slot 99"},
      {"state without a name", [](plan::Plan &p) { p.mutable_buckets(0)->mutable_states(0)->clear_name(); },
       "a state cannot be called ''"},
      {"state elsewhere", [](plan::Plan &p) { p.mutable_buckets(0)->mutable_states(0)->set_name("../x"); },
       "a state cannot be called '../x'"},
      {"state twice", [](plan::Plan &p) { p.mutable_buckets(0)->mutable_states(0)->set_name("exp_avg_sq"); },
       "'exp_avg_sq' of a state stands twice"},
      {"state of the model's name", [](plan::Plan &p) { p.mutable_buckets(0)->mutable_states(0)->set_name("model"); },
       "or is the model's"},
      {"states of one bucket", [](plan::Plan &p) { p.mutable_buckets(1)->set_trainable(true); },
       "its states are not those of bucket 'block'"},
      {"bucket of two types", [](plan::Plan &p) { p.mutable_parameters(1)->set_type(plan::BF16); },
       "type bf16 in a bucket of f32"},
      {"weight in fewer bits without a shape", [](plan::Plan &p) { p.mutable_parameters(1)->set_format(plan::NF4); },
       "for a matrix [] as nf4"},
      {"weight in fewer bits of another length",
       [](plan::Plan &p) {
         p.mutable_parameters(1)->set_format(plan::NF4_SINGLE);
         p.mutable_parameters(1)->add_quantized_shape(4);
         p.mutable_parameters(1)->add_quantized_shape(4);
       },
       "for a matrix [4, 4] as nf4_single"},
      {"transposed bytes without a format",
       [](plan::Plan &p) { p.mutable_parameters(1)->set_quantized_transposed(true); },
       "a quantised shape without a format"},
      {"quantised shape without a format", [](plan::Plan &p) { p.mutable_parameters(1)->add_quantized_shape(4); },
       "a quantised shape without a format"},
      {"narrow call without type",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(0)->mutable_attention()->set_type(plan::I32); },
       "unsuitable type"},
      {"copy", [](plan::Plan &p) { p.mutable_programs(1)->mutable_steps(0)->mutable_copy()->set_bytes(257); },
       "257 are needed"},
      {"kernel", [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(0)->mutable_launch()->set_kernel(3); },
       "kernel 3"},
      {"kernel without version", [](plan::Plan &p) { p.add_kernels()->set_name("k"); }, "no version"},
      {"kernel image",
       [](plan::Plan &p) {
         p.add_kernels()->set_name("k");
         p.mutable_kernels(0)->add_versions()->set_image(1);
       },
       "image 1"},
      {"kernel without blocks",
       [](plan::Plan &p) {
         p.add_images()->set_target("sm_90a"), p.mutable_images(0)->set_data("x");
         p.add_kernels()->set_name("k");
         p.mutable_kernels(0)->add_versions()->set_target("sm_90a");
       },
       "of 0 threads"},
      {"kernel with blocks on the host",
       [](plan::Plan &p) {
         p.add_images()->set_target("x86-64-v3"), p.mutable_images(0)->set_data("x");
         p.add_kernels()->set_name("k");
         p.mutable_kernels(0)->add_versions()->set_target("x86-64-v3");
         p.mutable_kernels(0)->mutable_versions(0)->set_block_threads(32);
       },
       "has no blocks"},
      {"image", [](plan::Plan &p) { p.add_images()->set_target("x86-64-v3"); }, "no data"},
      {"collective",
       [](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(0)->mutable_collective()->set_bucket(5); }, "bucket 5"},
      {"flat launch",
       [](plan::Plan &p) {
         p.add_images()->set_target("t"), p.mutable_images(0)->set_data("x");
         p.add_kernels()->set_name("k");
         p.mutable_kernels(0)->add_versions()->set_target("t");
         p.mutable_programs(0)->mutable_steps(0)->mutable_launch()->set_flat(true);
       },
       "blocks of 0"},
  };
  for (const BrokenPlan &broken : cases) {
    plan::Plan plan = smallPlan();
    broken.spoil(plan);
    const Status status = validatePlan(plan);
    EXPECT_FALSE(status.isOk()) << broken.name;
    EXPECT_THAT(status.message(), HasSubstr(broken.message)) << broken.name;
  }
}

TEST(PlanValidator, DamagedMessagesNeverCrash) {
  const std::string good = smallPlan().SerializeAsString();
  std::mt19937 random(1);
  unsigned parsed = 0;
  const google::protobuf::LogSilencer silence;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (unsigned flips = 1 + random() % 4; flips; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    plan::Plan plan;
    if (!plan.ParseFromString(bytes))
      continue;
    ++parsed;
    (void)validatePlan(plan).isOk();
  }
  EXPECT_GT(parsed, 1000u);
}

TEST(SizeForm, ShardsAndFullsArePaddedTo64PerRank) {
  plan::SizeForm size;
  size.set_elements(1000);
  size.set_element_bytes(4);
  EXPECT_EQ(sizeFormBytes(size, 3, false, 1), 4000u);
  size.set_kind(plan::SizeForm::SHARD);
  EXPECT_EQ(sizeFormBytes(size, 3, false, 1), 384u * 4);
  size.set_kind(plan::SizeForm::FULL);
  EXPECT_EQ(sizeFormBytes(size, 3, false, 1), 3u * 384 * 4);
  size.set_kind(plan::SizeForm::PER_THREAD);
  EXPECT_EQ(sizeFormBytes(size, 3, false, 5), 20000u);
  size.set_only_if_accumulating(true);
  EXPECT_EQ(sizeFormBytes(size, 3, false, 5), 0u);
  EXPECT_EQ(sizeFormBytes(size, 3, true, 5), 20000u);
}

TEST(SizeForm, ScratchMayHaveAnotherSizeOnAGpu) {
  plan::SizeForm size;
  size.set_elements(1000);
  size.set_element_bytes(4);
  EXPECT_EQ(sizeFormBytes(size, 3, false, 0), 4000u);
  size.set_gpu_elements(7);
  EXPECT_EQ(sizeFormBytes(size, 3, false, 2), 4000u);
  EXPECT_EQ(sizeFormBytes(size, 3, false, 0), 28u);
  size.set_kind(plan::SizeForm::PER_THREAD);
  EXPECT_EQ(sizeFormBytes(size, 3, false, 0), 28u);
  size.clear_gpu_elements();
  EXPECT_EQ(sizeFormBytes(size, 3, false, 0), 0u); // a GPU has no worker threads
}

} // namespace
