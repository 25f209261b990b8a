// The plan of ToyPlan.h for the CUDA device over the stand-ins: its kernels from a simt image (tests/standin/kernels,
// ToyKernels.cpp), its gradients added over ranks by collectives.
#pragma once
#include "tests/unit/runtime/ToyPlan.h"
#include <fstream>
#include <iterator>
#include <string>

namespace ztc::toy {

inline plan::Operand *addOperand(plan::Step &step, uint32_t slot, plan::Operand::Access access) {
  plan::Operand *operand = step.add_operands();
  operand->set_slot(slot);
  operand->set_access(access);
  return operand;
}

inline plan::Step &addCollective(plan::Program &program, const char *name, plan::Collective::Kind kind,
                                 uint64_t order) {
  plan::Step &step = *program.add_steps();
  step.set_name(name);
  step.set_layer(-1);
  step.set_stream(1);
  plan::Collective &collective = *step.mutable_collective();
  collective.set_kind(kind);
  collective.set_axis("data");
  collective.set_type(plan::F32);
  collective.set_launch_order(order);
  return step;
}

/// Orders what `stream` was given so far ahead of what the other one gets from now on.
inline void addOrder(plan::Program &program, uint32_t stream, uint32_t event) {
  plan::Step &record = *program.add_steps();
  record.set_name("record " + std::to_string(event));
  record.set_layer(-1);
  record.set_stream(stream);
  record.mutable_record()->set_event(event);
  plan::Step &wait = *program.add_steps();
  wait.set_name("wait " + std::to_string(event));
  wait.set_layer(-1);
  wait.set_stream(1 - stream);
  wait.mutable_wait()->set_event(event);
}

/// The gradient becomes a full bucket; update begins with its sum over ranks.
inline void addCollectives(plan::Plan &plan) {
  plan.mutable_slots(Gradient)->mutable_size()->set_kind(plan::SizeForm::FULL);
  const auto scratch = uint32_t(plan.slots_size());
  addSlot(plan, "received", plan::COMMUNICATION, 4096, 4, plan::F32);
  plan.mutable_slots(int(scratch))->mutable_size()->set_kind(plan::SizeForm::FULL);
  plan.mutable_slots(int(scratch))->mutable_size()->set_only_if_several_ranks(true);
  for (plan::Program &program : *plan.mutable_programs()) {
    if (program.name() != "update")
      continue;
    plan::Program summed;
    summed.set_name(program.name());
    addOrder(summed, 0, 0);
    plan::Step &reduce = addCollective(summed, "reduce_scatter all", plan::Collective::REDUCE_SCATTER, 0);
    addOperand(reduce, Gradient, plan::Operand::READ_WRITE);
    addOperand(reduce, scratch, plan::Operand::WRITE);
    plan::Step &gather = addCollective(summed, "all_gather all", plan::Collective::ALL_GATHER, 1);
    addOperand(gather, Gradient, plan::Operand::READ)->set_own_shard(true);
    addOperand(gather, Gradient, plan::Operand::WRITE);
    addOrder(summed, 1, 1);
    for (const plan::Step &step : program.steps())
      *summed.add_steps() = step;
    program = summed;
  }
}

/// `image`: the file with the kernels.
inline plan::Plan makeGpuPlan(uint64_t batch, uint64_t seq, const char *image) {
  plan::Plan plan = makePlan(batch, seq);
  addCollectives(plan);
  std::ifstream file(image, std::ios::binary);
  plan::Image &kernels = *plan.add_images();
  kernels.set_target("simt");
  kernels.set_data(std::string(std::istreambuf_iterator<char>(file), {}));
  for (plan::Kernel &kernel : *plan.mutable_kernels()) {
    plan::Kernel::Version &version = *kernel.add_versions();
    version.set_target("simt");
    version.set_block_threads(1);
    version.set_waits(true);
    version.set_units_per_block(1);
  }
  recordKernelSignatures(plan);
  return plan;
}

} // namespace ztc::toy
