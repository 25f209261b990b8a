#include "compiler/Analysis/ProgramEdits.h"

namespace ztc {

plan::Program *programOf(plan::Plan &plan, std::string_view name) {
  for (plan::Program &program : *plan.mutable_programs())
    if (program.name() == name)
      return &program;
  return nullptr;
}

const plan::Program *programOf(const plan::Plan &plan, std::string_view name) {
  for (const plan::Program &program : plan.programs())
    if (program.name() == name)
      return &program;
  return nullptr;
}

void dropSteps(plan::Program &program, const llvm::DenseSet<int> &dropped,
               const llvm::DenseMap<uint32_t, uint32_t> &instead) {
  google::protobuf::RepeatedPtrField<plan::Step> left;
  for (int i = 0; i < program.steps_size(); ++i) {
    if (dropped.contains(i))
      continue;
    plan::Step &step = *left.Add();
    step.Swap(program.mutable_steps(i));
    for (plan::Operand &operand : *step.mutable_operands())
      if (const auto found = instead.find(operand.slot()); found != instead.end())
        operand.set_slot(found->second);
  }
  program.mutable_steps()->Swap(&left);
}

} // namespace ztc
