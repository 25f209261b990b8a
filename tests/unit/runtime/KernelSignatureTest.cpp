// Launches and library calls against the kernels that they name: the code of a kernel has sizes in it, and a plan that
// contradicts them is refused before it runs.
#include "runtime/Format/KernelSignature.h"
#include "Scratch.h"
#include "runtime/Format/PlanValidator.h"
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

/// Kernels of the plan, in order; the last ones are service kernels.
enum KernelIndex : uint32_t { Double, DoubleAdd, Flat, Softmax, SoftmaxGrad, RowDot, Rows };
/// Slots of smallPlan.
enum SlotIndex : uint32_t { Parameters, Gradients, FirstState, SecondState, Table, A, B, C };

/// smallPlan with a launch over units, one over the bucket "block", and an attention.
plan::Plan launchingPlan() {
  plan::Plan plan = smallPlan();
  plan.add_images()->set_target("t");
  plan.mutable_images(0)->set_data("x");
  for (const char *name : {"double", "double_add", "flat", "attention_softmax_causal", "attention_softmax_grad_2",
                           "row_dot", "cross_entropy_rows_loss"}) {
    plan.add_kernels()->set_name(name);
    plan.mutable_kernels()->rbegin()->add_versions()->set_target("t");
  }
  plan::Program &update = *plan.mutable_programs(1);
  plan::Step &units = *update.add_steps();
  units.set_name("units");
  addOperand(units, A, plan::Operand::READ);
  units.mutable_operands(0)->set_bytes(64);
  addOperand(units, C, plan::Operand::READ_WRITE);
  plan::Launch &launch = *units.mutable_launch();
  launch.set_kernel(Double), launch.set_kernel_add(DoubleAdd), launch.set_accumulate(plan::ADD_UNLESS_FIRST);
  launch.set_extent(4), launch.set_grain(2), launch.add_scalars(3);
  plan::Step &flat = *update.add_steps();
  flat.set_name("flat");
  addOperand(flat, Gradients, plan::Operand::READ);
  addOperand(flat, Parameters, plan::Operand::READ_WRITE);
  flat.mutable_launch()->set_kernel(Flat);
  flat.mutable_launch()->set_flat(true);
  flat.mutable_launch()->set_flat_block(16);
  flat.mutable_launch()->set_flat_range(plan::Launch::WHOLE);
  recordKernelSignatures(plan);
  return plan;
}

plan::Step &updateStep(plan::Plan &plan, std::string_view name) {
  for (plan::Step &step : *plan.mutable_programs(1)->mutable_steps())
    if (step.name() == name)
      return step;
  ADD_FAILURE() << "no step " << name;
  return *plan.mutable_programs(1)->mutable_steps(0);
}

struct BrokenSignature {
  const char *name;
  std::function<void(plan::Plan &)> spoil;
};

TEST(KernelSignature, IsRecordedOnceForEachWayOfLaunching) {
  plan::Plan plan = launchingPlan();
  ASSERT_OK(validatePlan(plan));
  EXPECT_EQ(plan.kernels(Double).signatures_size(), 1);
  EXPECT_EQ(plan.kernels(DoubleAdd).signatures_size(), 1);
  EXPECT_EQ(plan.kernels(Softmax).signatures_size(), 0);
  for (uint64_t extent : {4, 8}) {
    plan::Step &again = *plan.mutable_programs(1)->add_steps();
    again = updateStep(plan, "units");
    again.set_name("units again");
    again.mutable_launch()->set_extent(extent);
  }
  EXPECT_THAT(validatePlan(plan).message(), HasSubstr("kernel 0 'double' was not made for this launch (64 bytes, *20 x "
                                                      "4 bytes) over 8 units"));
  recordKernelSignatures(plan);
  EXPECT_OK(validatePlan(plan));
  EXPECT_EQ(plan.kernels(Double).signatures_size(), 2);
}

TEST(KernelSignature, BytesThatAreReadAreThoseOfOperands) {
  plan::Plan plan = launchingPlan();
  plan::Launch &launch = *updateStep(plan, "units").mutable_launch();
  launch.add_read_bytes(32), launch.add_read_bytes(0);
  EXPECT_OK(validatePlan(plan));
  launch.add_read_bytes(8);
  EXPECT_THAT(validatePlan(plan).message(), HasSubstr("2 operands, and bytes that are read of 3"));
}

TEST(KernelSignature, EachNumberOfALaunchIsHeld) {
  const auto units = [](plan::Plan &p) { return updateStep(p, "units").mutable_launch(); };
  const auto flat = [](plan::Plan &p) { return updateStep(p, "flat").mutable_launch(); };
  const auto signature = [](plan::Plan &p) { return p.mutable_kernels(Double)->mutable_signatures(0); };
  const BrokenSignature cases[] = {
      {"another kernel", [=](plan::Plan &p) { units(p)->set_kernel(Flat); }},
      {"a service kernel", [=](plan::Plan &p) { units(p)->set_kernel(RowDot); }},
      {"another variant that adds", [=](plan::Plan &p) { units(p)->set_kernel_add(Flat); }},
      {"extent", [=](plan::Plan &p) { units(p)->set_extent(uint64_t(1) << 61); }},
      {"grain", [=](plan::Plan &p) { units(p)->set_grain(1); }},
      {"scalar", [=](plan::Plan &p) { units(p)->set_scalars(0, 1 << 20); }},
      {"no scalar", [=](plan::Plan &p) { units(p)->clear_scalars(); }},
      {"one more scalar", [=](plan::Plan &p) { units(p)->add_scalars(0); }},
      {"one operand less", [](plan::Plan &p) { updateStep(p, "units").mutable_operands()->RemoveLast(); }},
      {"one operand more", [](plan::Plan &p) { addOperand(updateStep(p, "units"), A, plan::Operand::READ); }},
      {"a smaller piece", [](plan::Plan &p) { updateStep(p, "units").mutable_operands(0)->set_bytes(60); }},
      {"the rest in place of a piece", [](plan::Plan &p) { updateStep(p, "units").mutable_operands(0)->set_bytes(0); }},
      {"a piece in place of the rest", [](plan::Plan &p) { updateStep(p, "units").mutable_operands(1)->set_bytes(4); }},
      {"another slot", [](plan::Plan &p) { updateStep(p, "units").mutable_operands(1)->set_slot(B); }},
      {"a slot of another size", [](plan::Plan &p) { p.mutable_slots(C)->mutable_size()->set_elements(32); }},
      {"a slot that is not always there",
       [](plan::Plan &p) { p.mutable_slots(Gradients)->mutable_size()->set_only_if_accumulating(true); }},
      {"a slot that is smaller on a GPU",
       [](plan::Plan &p) { p.mutable_slots(C)->mutable_size()->set_gpu_elements(1); }},
      {"the rest from elsewhere", [](plan::Plan &p) { updateStep(p, "units").mutable_operands(1)->set_offset(4); }},
      {"what is written is read", [](plan::Plan &p) { updateStep(p, "units").mutable_operands(1)->set_access({}); }},
      {"flat in place of units",
       [=](plan::Plan &p) { units(p)->set_flat(true), units(p)->set_flat_block(16), units(p)->set_bucket(0); }},
      {"units in place of flat", [=](plan::Plan &p) { flat(p)->set_flat(false); }},
      {"block", [=](plan::Plan &p) { flat(p)->set_flat_block(1); }},
      {"range", [=](plan::Plan &p) { flat(p)->set_flat_range(plan::Launch::OWN_SHARD); }},
      {"bucket", [=](plan::Plan &p) { flat(p)->set_bucket(1); }},
      {"elements of the bucket", [](plan::Plan &p) { p.mutable_buckets(0)->set_elements(64); }},
      {"extent of a flat launch", [=](plan::Plan &p) { flat(p)->set_extent(uint64_t(1) << 61); }},
      {"no signature", [](plan::Plan &p) { p.mutable_kernels(Double)->clear_signatures(); }},
      {"signature: extent", [=](plan::Plan &p) { signature(p)->set_extent(5); }},
      {"signature: grain", [=](plan::Plan &p) { signature(p)->set_grain(5); }},
      {"signature: scalar", [=](plan::Plan &p) { signature(p)->set_scalars(0, 5); }},
      {"signature: flat", [=](plan::Plan &p) { signature(p)->set_flat(true); }},
      {"signature: elements", [=](plan::Plan &p) { signature(p)->set_elements(5); }},
      {"signature: parameters", [=](plan::Plan &p) { signature(p)->mutable_parameters()->RemoveLast(); }},
      {"signature: bytes", [=](plan::Plan &p) { signature(p)->mutable_parameters(0)->set_bytes(60); }},
      {"signature: slot", [=](plan::Plan &p) { signature(p)->mutable_parameters(1)->clear_slot(); }},
      {"signature: written", [=](plan::Plan &p) { signature(p)->mutable_parameters(0)->set_written(true); }},
  };
  for (const BrokenSignature &broken : cases) {
    plan::Plan plan = launchingPlan();
    broken.spoil(plan);
    const Status status = validatePlan(plan);
    EXPECT_EQ(status.code(), StatusCode::DataLoss) << broken.name;
    EXPECT_THAT(status.message(), HasSubstr("was not made for this launch")) << broken.name;
  }
}

/// The plan with a step in front whose operands are large enough for anything here.
plan::Plan withCall(const std::function<void(plan::Step &)> &fill, int operands) {
  plan::Plan plan = launchingPlan();
  const uint32_t large = addSlot(plan, "large", plan::ACTIVATIONS, 1 << 20, false);
  plan::Step &step = *plan.mutable_programs(0)->add_steps();
  step.set_name("call");
  for (int i = 0; i < operands; ++i)
    addOperand(step, large, plan::Operand::READ_WRITE);
  fill(step);
  return plan;
}

TEST(KernelSignature, ServiceKernelsAreThoseOfTheCall) {
  const auto attention = [](uint32_t softmax, uint32_t softmaxGrad, uint32_t rowDot) {
    return withCall(
        [=](plan::Step &step) {
          plan::Attention &a = *step.mutable_attention();
          a.set_batch(1), a.set_seq(4), a.set_heads(2), a.set_kv_heads(1), a.set_head_dim(8), a.set_block(4);
          a.set_type(plan::F32), a.set_grad(true), a.set_softmax_kernel(softmax);
          a.set_softmax_grad_kernel(softmaxGrad), a.set_row_dot_kernel(rowDot);
        },
        10);
  };
  EXPECT_OK(validatePlan(attention(Softmax, SoftmaxGrad, RowDot)));
  EXPECT_THAT(validatePlan(attention(SoftmaxGrad, SoftmaxGrad, RowDot)).message(),
              HasSubstr("kernel 4 'attention_softmax_grad_2' is not the service kernel attention_softmax"));
  EXPECT_THAT(validatePlan(attention(Softmax, Softmax, RowDot)).message(),
              HasSubstr("is not the service kernel attention_softmax_grad"));
  EXPECT_THAT(validatePlan(attention(Softmax, SoftmaxGrad, Double)).message(),
              HasSubstr("kernel 0 'double' is not the service kernel row_dot"));
  plan::Plan capped = attention(Softmax, SoftmaxGrad, RowDot);
  capped.mutable_programs(0)->mutable_steps()->rbegin()->mutable_attention()->set_softcap(50);
  EXPECT_THAT(validatePlan(capped).message(), HasSubstr("of attention that is softcapped"));
  const auto lossWith = [](int operands, auto change) {
    return withCall(
        [&](plan::Step &step) {
          plan::LinearCrossEntropy &l = *step.mutable_linear_cross_entropy();
          l.set_tokens(4), l.set_width(8), l.set_vocabulary(16), l.set_chunk(2);
          l.set_type(plan::F32), l.set_rows_kernel(Rows);
          change(l);
        },
        operands);
  };
  EXPECT_THAT(validatePlan(lossWith(8, [](auto &l) { l.set_training(true); })).message(),
              HasSubstr("is not the service kernel cross_entropy_rows"));
  EXPECT_THAT(validatePlan(lossWith(6, [](auto &l) { l.set_weighted(true); })).message(),
              HasSubstr("is not the service kernel cross_entropy_rows_loss_weighted"));
  const plan::Plan groups = lossWith(5, [](auto &l) { l.set_groups(3); });
  EXPECT_THAT(validatePlan(groups).message(), HasSubstr("linear_cross_entropy with 3 losses of 4 rows"));
}

TEST(KernelSignature, KernelsForGpusAreMadeForTheSizesOfTheCall) {
  const auto gather = [](const char *name, int kernels, uint64_t rowBytes) {
    plan::Plan plan = withCall(
        [=](plan::Step &step) {
          plan::Gather &g = *step.mutable_gather();
          g.set_rows(4), g.set_row_bytes(rowBytes), g.set_table_rows(8);
          for (int i = 0; i < kernels; ++i)
            g.add_gpu_kernels(Rows);
        },
        3);
    plan.mutable_kernels(Rows)->set_name(name);
    return validatePlan(plan);
  };
  EXPECT_OK(gather("gpu_gather_16", 1, 64));
  EXPECT_OK(gather("gpu_gather_8", 1, 24));
  EXPECT_OK(gather("anything", 0, 64));
  EXPECT_THAT(gather("gpu_gather_16", 1, 24).message(), HasSubstr("is not the service kernel gpu_gather_8"));
  EXPECT_THAT(gather("gpu_gather_16", 1, 17).message(), HasSubstr("is not the service kernel gpu_gather_1"));
  EXPECT_THAT(gather("gpu_gather_16", 2, 64).message(), HasSubstr("2 kernels for GPUs, 1 are needed"));
  const auto attention = [](const char *name, plan::DataType type, double softcap = 0) {
    plan::Plan plan = withCall(
        [=](plan::Step &step) {
          plan::Attention &a = *step.mutable_attention();
          a.set_batch(1), a.set_seq(4), a.set_heads(2), a.set_kv_heads(1), a.set_head_dim(64), a.set_block(4);
          a.set_type(type), a.set_softmax_kernel(kAbsent), a.add_gpu_kernels(Rows), a.set_softcap(softcap);
        },
        6);
    plan.mutable_kernels(Rows)->set_name(name);
    return validatePlan(plan);
  };
  EXPECT_OK(attention("gpu_attention_64_causal", plan::F32));
  EXPECT_OK(attention("gpu_attention_bf16_64_window", plan::BF16));
  EXPECT_THAT(attention("gpu_attention_64_causal_packed", plan::F32).message(),
              HasSubstr("attention that is not packed"));
  EXPECT_OK(attention("gpu_attention_64_causal_softcap", plan::F32, 50));
  EXPECT_THAT(attention("gpu_attention_64_causal_softcap", plan::F32).message(),
              HasSubstr("attention that is not softcapped"));
  EXPECT_THAT(attention("gpu_attention_64_causal", plan::F32, 50).message(), HasSubstr("attention that is softcapped"));
  for (double softcap : {-1.0, double(NAN), 1e300})
    EXPECT_THAT(attention("gpu_attention_64_causal_softcap", plan::F32, softcap).message(),
                HasSubstr("attention with a softcap of"));
  for (const char *name : {"gpu_attention_bf16_64", "gpu_attention_6", "gpu_attention_640", "gpu_attention_delta_64"})
    EXPECT_THAT(attention(name, plan::F32).message(), HasSubstr("is not the service kernel gpu_attention_64")) << name;
}

} // namespace
