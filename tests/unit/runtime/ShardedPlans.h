// A plan with shards and collectives that tests break one fact at a time.
#pragma once
#include "Scratch.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/KernelSignature.h"
#include <functional>
#include <string>
#include <string_view>

namespace ztc::test {

inline constexpr uint64_t kElements = 1000;

/// Slots of shardedPlan, in order.
enum Slot : uint32_t { Parameter, Gathered, Gradient, Local, ExpAvg, ExpAvgSq, Receive, Value };

inline uint32_t addForm(plan::Plan &plan, const std::string &name, plan::SlotClass slotClass, plan::SizeForm::Kind kind,
                        uint64_t elements, bool persistent) {
  const uint32_t slot = addSlot(plan, name, slotClass, elements, persistent);
  plan.mutable_slots(static_cast<int>(slot))->mutable_size()->set_kind(kind);
  return slot;
}

inline plan::Step &addStep(plan::Program &program, const std::string &name, uint32_t stream) {
  plan::Step &step = *program.add_steps();
  step.set_name(name);
  step.set_layer(-1);
  step.set_stream(stream);
  return step;
}

/// A collective as ConvertToPlan writes it: ready, begin, the collective, finished; its events are `event` and the
/// next.
inline plan::Step &addCollective(plan::Program &program, const std::string &name, plan::Collective::Kind kind,
                                 uint32_t event, uint64_t order, std::initializer_list<uint32_t> slots) {
  addStep(program, name + " ready", 0).mutable_record()->set_event(event);
  addStep(program, name + " begin", 1).mutable_wait()->set_event(event);
  plan::Step &step = addStep(program, name, 1);
  step.mutable_collective()->set_kind(kind);
  step.mutable_collective()->set_axis("data");
  step.mutable_collective()->set_type(plan::F32);
  step.mutable_collective()->set_launch_order(order);
  for (uint32_t slot : slots)
    addOperand(step, slot, plan::Operand::READ_WRITE);
  addStep(program, name + " finished", 1).mutable_record()->set_event(event + 1);
  return step;
}

inline void addDone(plan::Program &program, const std::string &name, uint32_t event,
                    std::initializer_list<uint32_t> slots) {
  plan::Step &step = addStep(program, name + " done", 0);
  step.mutable_wait()->set_event(event);
  for (uint32_t slot : slots)
    addOperand(step, slot, plan::Operand::READ_WRITE);
}

/// One bucket of kElements under ZeRO-3: gathered and reduced in every micro-step; the update adds up one scalar.
inline plan::Plan shardedPlan() {
  plan::Plan plan;
  plan.mutable_model()->set_batch(1);
  plan.mutable_model()->set_seq(1);
  plan.mutable_model()->set_vocabulary(2);
  using F = plan::SizeForm;
  addForm(plan, "parameter", plan::PARAMETERS, F::SHARD, kElements, true);
  addForm(plan, "gathered", plan::GATHERED, F::FULL, kElements, false);
  addForm(plan, "gradient", plan::GRADIENTS, F::SHARD, kElements, false);
  addForm(plan, "local", plan::GRADIENTS, F::FULL, kElements, false);
  addForm(plan, "exp_avg", plan::OPTIMIZER, F::SHARD, kElements, true);
  addForm(plan, "exp_avg_sq", plan::OPTIMIZER, F::SHARD, kElements, true);
  addForm(plan, "receive", plan::COMMUNICATION, F::FULL, 64, false);
  addForm(plan, "value", plan::WORKSPACE, F::CONSTANT, 1, false);
  plan.mutable_slots(Gathered)->set_same_as_at_one_rank(Parameter + 1);
  plan.mutable_slots(Receive)->mutable_size()->set_only_if_several_ranks(true);
  plan::Bucket &bucket = *plan.add_buckets();
  bucket.set_name("block0");
  bucket.set_elements(kElements);
  bucket.set_decayed(kElements);
  bucket.set_trainable(true);
  bucket.set_parameter_slot(Parameter);
  bucket.set_gradient_slot(Gradient);
  addState(bucket, "exp_avg", ExpAvg);
  addState(bucket, "exp_avg_sq", ExpAvgSq);
  bucket.set_master_slot(kAbsent);
  plan.add_images()->set_target("t");
  plan.mutable_images(0)->set_data("x");
  plan::Kernel &kernel = *plan.add_kernels();
  kernel.set_name("accumulate");
  kernel.add_versions()->set_target("t");
  plan::Program &microstep = *plan.add_programs();
  microstep.set_name("microstep");
  addCollective(microstep, "gather", plan::Collective::ALL_GATHER, 0, 0, {Parameter, Gathered});
  addDone(microstep, "gather", 1, {Parameter, Gathered});
  plan::Step &fill = addStep(microstep, "fill", 0);
  fill.mutable_fill();
  addOperand(fill, Local, plan::Operand::WRITE);
  addCollective(microstep, "reduce", plan::Collective::REDUCE_SCATTER, 2, 1, {Local, Receive});
  addDone(microstep, "reduce", 3, {Local, Receive});
  plan::Step &accumulate = addStep(microstep, "accumulate", 0);
  accumulate.mutable_launch()->set_flat(true);
  accumulate.mutable_launch()->set_flat_block(4096);
  addOperand(accumulate, Local, plan::Operand::READ);
  accumulate.mutable_operands(0)->set_own_shard(true);
  addOperand(accumulate, Gradient, plan::Operand::WRITE);
  plan::Program &update = *plan.add_programs();
  update.set_name("update");
  addCollective(update, "sum", plan::Collective::ALL_REDUCE, 4, 2, {Value, Receive});
  addDone(update, "sum", 5, {Value, Receive});
  bindNothing(*plan.mutable_bindings());
  recordKernelSignatures(plan);
  return plan;
}

inline plan::Step &stepOf(plan::Plan &plan, std::string_view name) {
  for (plan::Program &program : *plan.mutable_programs())
    for (plan::Step &step : *program.mutable_steps())
      if (step.name() == name)
        return step;
  ADD_FAILURE() << "no step " << name;
  return *plan.mutable_programs(0)->mutable_steps(0);
}

/// Does something to the five steps of the gather.
inline void forGather(plan::Plan &plan, const std::function<void(plan::Step &)> &change, bool isKept = false) {
  for (const char *name : {"gather ready", "gather begin", "gather", "gather finished", "gather done"})
    change(stepOf(plan, name));
  if (isKept)
    stepOf(plan, "gather").set_only_first_microstep(true);
}

/// The gather serves all micro-steps.
inline void keepGather(plan::Plan &plan) {
  plan.mutable_slots(Gathered)->set_kept(true);
  forGather(plan, [](plan::Step &step) { step.set_only_first_microstep(true); });
}

/// The first micro-step makes fp8 codes that a copy in each reads. Returns the slot of the codes.
inline uint32_t makeOnce(plan::Plan &plan) {
  using F = plan::SizeForm;
  const uint32_t matrix = addForm(plan, "matrix", plan::ACTIVATIONS, F::CONSTANT, 256, false);
  const uint32_t scale = addForm(plan, "scale", plan::WORKSPACE, F::CONSTANT, 2, false);
  const uint32_t partials = addForm(plan, "partials", plan::WORKSPACE, F::CONSTANT, 1024, false);
  const uint32_t codes = addForm(plan, "codes", plan::WORKSPACE, F::CONSTANT, 64, false);
  plan.mutable_slots(int(codes))->set_kept(true);
  plan::Program &microstep = *plan.mutable_programs(0);
  plan::Step &fill = addStep(microstep, "matrix", 0);
  fill.mutable_fill();
  addOperand(fill, matrix, plan::Operand::WRITE);
  plan::Step &quantize = addStep(microstep, "codes", 0);
  quantize.set_only_first_microstep(true);
  quantize.mutable_quantize_fp8()->set_rows(16);
  quantize.mutable_quantize_fp8()->set_columns(16);
  quantize.mutable_quantize_fp8()->set_from(plan::F32);
  quantize.mutable_quantize_fp8()->set_to(plan::E4M3);
  quantize.mutable_quantize_fp8()->set_by_rows(true);
  addOperand(quantize, matrix, plan::Operand::READ);
  for (uint32_t slot : {scale, partials, codes})
    addOperand(quantize, slot, plan::Operand::WRITE);
  plan::Step &copy = addStep(microstep, "copy of codes", 0);
  copy.mutable_copy()->set_bytes(256);
  addOperand(copy, codes, plan::Operand::READ);
  addOperand(copy, matrix, plan::Operand::WRITE);
  return codes;
}

/// The update gathers for the next step.
inline void carryGather(plan::Plan &plan) {
  plan.mutable_slots(Gathered)->set_carried(true);
  forGather(plan, [](plan::Step &step) { step.set_unless_carried(true); });
  plan::Program &update = *plan.mutable_programs(1);
  addCollective(update, "early", plan::Collective::ALL_GATHER, 6, 3, {Parameter, Gathered});
  addDone(update, "early", 7, {Parameter, Gathered});
}

struct Broken {
  const char *name;
  std::function<void(plan::Plan &)> spoil;
  const char *message;
};

} // namespace ztc::test
