// Folders, files and a small valid plan for tests.
#pragma once
#include "runtime/Core/File.h"
#include "runtime/Format/Bindings.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/plan.pb.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <string_view>

namespace ztc::test {

/// A folder of its own that goes with the object.
class Scratch {
public:
  Scratch() {
    std::string pattern = (std::getenv("TMPDIR") ? std::string(std::getenv("TMPDIR")) : "/tmp") + "/ztc-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Scratch() { (void)removeAll(folder_).isOk(); }
  std::string path(const std::string &name = "") const { return name.empty() ? folder_ : folder_ + "/" + name; }
  std::string write(const std::string &name, std::string_view content) const {
    EXPECT_TRUE(replaceFile(path(name), content).isOk());
    return path(name);
  }

private:
  std::string folder_;
};

inline std::string messageOf(const Status &status) {
  return status.isOk() ? "ok" : status.message() + " (an error)";
}
/// Fails the test with the status's message; more can be streamed in.
#define EXPECT_OK(expression) EXPECT_EQ(::ztc::test::messageOf(expression), "ok")
#define ASSERT_OK(expression) ASSERT_EQ(::ztc::test::messageOf(expression), "ok")

inline uint32_t addSlot(plan::Plan &plan, const std::string &name, plan::SlotClass slotClass, uint64_t elements,
                        bool persistent) {
  plan::Slot &slot = *plan.add_slots();
  slot.set_name(name);
  slot.set_slot_class(slotClass);
  slot.set_type(plan::F32);
  slot.mutable_size()->set_elements(elements);
  slot.mutable_size()->set_element_bytes(4);
  slot.set_layer(-1);
  slot.set_persistent(persistent);
  return static_cast<uint32_t>(plan.slots_size() - 1);
}

inline void addOperand(plan::Step &step, uint32_t slot, plan::Operand::Access access) {
  plan::Operand &operand = *step.add_operands();
  operand.set_slot(slot);
  operand.set_access(access);
}

inline void addState(plan::Bucket &bucket, const char *name, uint32_t slot) {
  plan::Bucket::State &state = *bucket.add_states();
  state.set_name(name);
  state.set_slot(slot);
}

/// The slot of one of the states, kAbsent where there is none: the bucket is frozen.
inline uint32_t stateSlot(const plan::Bucket &bucket, int state) {
  return state < bucket.states_size() ? bucket.states(state).slot() : kAbsent;
}

/// Two buckets: "block" with a matrix [4, 6], a bias [6] and a norm [5], and the frozen "table" with the tied matrix
/// [7, 3]. The microstep multiplies, updates copy.
inline plan::Plan smallPlan() {
  plan::Plan plan;
  plan.set_ztc_version("test");
  plan.set_precision("fp32");
  plan.mutable_model()->set_batch(2);
  plan.mutable_model()->set_seq(4);
  plan.mutable_model()->set_vocabulary(256);
  const uint32_t parameters = addSlot(plan, "block", plan::PARAMETERS, 64, true);
  const uint32_t gradients = addSlot(plan, "block gradients", plan::GRADIENTS, 64, false);
  const uint32_t first = addSlot(plan, "block exp_avg", plan::OPTIMIZER, 64, true);
  const uint32_t second = addSlot(plan, "block exp_avg_sq", plan::OPTIMIZER, 64, true);
  const uint32_t table = addSlot(plan, "table", plan::PARAMETERS, 64, true);
  const uint32_t a = addSlot(plan, "a", plan::ACTIVATIONS, 4 * 8, false),
                 b = addSlot(plan, "b", plan::ACTIVATIONS, 8 * 5, false);
  const uint32_t c = addSlot(plan, "c", plan::ACTIVATIONS, 4 * 5, false);

  plan::Bucket &block = *plan.add_buckets();
  block.set_name("block");
  block.set_elements(35);
  block.set_decayed(24);
  block.set_trainable(true);
  block.set_parameter_slot(parameters);
  block.set_gradient_slot(gradients);
  addState(block, "exp_avg", first);
  addState(block, "exp_avg_sq", second);
  block.set_master_slot(kAbsent);
  plan::Bucket &frozen = *plan.add_buckets();
  frozen.set_name("table");
  frozen.set_elements(21);
  frozen.set_parameter_slot(table);
  const auto addParameter = [&](const std::string &name, uint32_t bucket, uint64_t offset,
                                std::initializer_list<int64_t> shape) {
    plan::Parameter &parameter = *plan.add_parameters();
    parameter.set_name(name);
    parameter.set_type(plan::F32);
    parameter.set_bucket(bucket);
    parameter.set_offset(offset);
    parameter.set_trainable(bucket == 0);
    parameter.mutable_shape()->Add(shape.begin(), shape.end());
    return &parameter;
  };
  addParameter("layers.0.weight", 0, 0, {4, 6});
  addParameter("layers.0.bias", 0, 24, {6});
  addParameter("layers.0.norm.weight", 0, 30, {5});
  addParameter("embed.weight", 1, 0, {7, 3})->add_tied("lm_head.weight");

  plan::Program &microstep = *plan.add_programs();
  microstep.set_name("microstep");
  plan::Step &fill = *microstep.add_steps();
  fill.set_name("fill");
  fill.mutable_fill();
  addOperand(fill, a, plan::Operand::WRITE);
  plan::Step &gemm = *microstep.add_steps();
  gemm.set_name("multiply");
  plan::Gemm &g = *gemm.mutable_gemm();
  g.set_m(4), g.set_n(5), g.set_k(8), g.set_lda(8), g.set_ldb(5), g.set_ldc(5), g.set_alpha(1);
  g.set_type_a(plan::F32), g.set_type_c(plan::F32);
  addOperand(gemm, a, plan::Operand::READ);
  addOperand(gemm, b, plan::Operand::READ);
  addOperand(gemm, c, plan::Operand::WRITE);
  plan::Program &update = *plan.add_programs();
  update.set_name("update");
  plan::Step &copy = *update.add_steps();
  copy.set_name("copy");
  copy.mutable_copy()->set_bytes(256);
  addOperand(copy, gradients, plan::Operand::READ);
  addOperand(copy, parameters, plan::Operand::WRITE);

  bindNothing(*plan.mutable_bindings());
  (*plan.mutable_options())["zero"] = "0";
  (*plan.mutable_options())["batch"] = "2";
  return plan;
}

/// The plan in bf16 or fp16: parameters of two bytes, masters of what is trained as remainder or f32, gradients on the
/// wire in two bytes, first moments in bf16.
inline void makeNarrow(plan::Plan &plan, plan::DataType type) {
  const auto setType = [&](uint32_t slot, plan::DataType type) {
    plan.mutable_slots(int(slot))->set_type(type);
    plan.mutable_slots(int(slot))->mutable_size()->set_element_bytes(uint32_t(dataTypeBytes(type)));
  };
  plan.set_precision(type == plan::BF16 ? "bf16" : "fp16");
  for (plan::Parameter &parameter : *plan.mutable_parameters())
    parameter.set_type(type);
  for (plan::Bucket &bucket : *plan.mutable_buckets()) {
    setType(bucket.parameter_slot(), type);
    bucket.set_master_slot(kAbsent);
    if (!bucket.trainable())
      continue;
    setType(bucket.gradient_slot(), type);
    setType(bucket.states(0).slot(), plan::BF16);
    *plan.add_slots() = plan.slots(int(bucket.states(1).slot())); // lies as the moments do
    bucket.set_master_slot(uint32_t(plan.slots_size() - 1));
    plan.mutable_slots(plan.slots_size() - 1)->set_name(bucket.name() + " master");
    setType(bucket.master_slot(), type == plan::BF16 ? plan::I16 : plan::F32);
  }
}

} // namespace ztc::test
