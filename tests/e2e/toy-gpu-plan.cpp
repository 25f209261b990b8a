// Writes the plan of tests/unit/runtime/ToyPlan.h for the CUDA device: its kernels from a simt image, its gradients
// added over ranks by collectives.
//
//     toy-gpu-plan IMAGE PLAN
#include "runtime/Format/PlanFile.h"
#include "tests/unit/runtime/ToyPlan.h"
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

using namespace ztc;

namespace {

plan::Operand *addOperand(plan::Step &step, uint32_t slot, plan::Operand::Access access) {
  plan::Operand *operand = step.add_operands();
  operand->set_slot(slot);
  operand->set_access(access);
  return operand;
}

plan::Step &addCollective(plan::Program &program, const char *name, plan::Collective::Kind kind, uint64_t order) {
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
void addOrder(plan::Program &program, uint32_t stream, uint32_t event) {
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
void addOverRanks(plan::Plan &plan) {
  plan.mutable_slots(toy::Gradient)->mutable_size()->set_kind(plan::SizeForm::FULL);
  const auto scratch = uint32_t(plan.slots_size());
  toy::addSlot(plan, "received", plan::COMMUNICATION, 4096, 4, plan::F32);
  plan.mutable_slots(int(scratch))->mutable_size()->set_kind(plan::SizeForm::FULL);
  plan.mutable_slots(int(scratch))->mutable_size()->set_only_if_several_ranks(true);
  for (plan::Program &program : *plan.mutable_programs()) {
    if (program.name() != "update")
      continue;
    plan::Program summed;
    summed.set_name(program.name());
    addOrder(summed, 0, 0);
    plan::Step &reduce = addCollective(summed, "reduce_scatter all", plan::Collective::REDUCE_SCATTER, 0);
    addOperand(reduce, toy::Gradient, plan::Operand::READ_WRITE);
    addOperand(reduce, scratch, plan::Operand::WRITE);
    plan::Step &gather = addCollective(summed, "all_gather all", plan::Collective::ALL_GATHER, 1);
    addOperand(gather, toy::Gradient, plan::Operand::READ)->set_own_shard(true);
    addOperand(gather, toy::Gradient, plan::Operand::WRITE);
    addOrder(summed, 1, 1);
    for (const plan::Step &step : program.steps())
      *summed.add_steps() = step;
    program = summed;
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  plan::Plan plan = toy::makePlan(2, 8);
  addOverRanks(plan);
  std::ifstream file(argv[1], std::ios::binary);
  plan::Image &image = *plan.add_images();
  image.set_target("simt");
  image.set_data(std::string(std::istreambuf_iterator<char>(file), {}));
  for (plan::Kernel &kernel : *plan.mutable_kernels()) {
    plan::Kernel::Version &version = *kernel.add_versions();
    version.set_target("simt");
    version.set_block_threads(1);
    version.set_units_per_block(1);
  }
  const Status status = writePlanFile(plan, argv[2]);
  if (!status.isOk())
    std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.isOk() ? 0 : 1;
}
