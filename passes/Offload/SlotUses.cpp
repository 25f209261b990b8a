#include "passes/Offload/SlotUses.h"

using namespace mlir;

namespace ztc {

SlotUses slotUses(ModuleOp module) {
  SlotUses uses;
  for (auto program : module.getOps<plan_ir::ProgramOp>())
    for (Operation &op : program.getBody().front())
      if (auto step = dyn_cast<plan_ir::StepOpInterface>(op))
        for (auto operand : step.getStepSlots().getAsRange<plan_ir::OperandAttr>())
          if (auto &of = uses[operand.getSlot().getAttr()]; of.empty() || of.back() != &op)
            of.push_back(&op);
  return uses;
}

SlotSharers slotSharers(ModuleOp module) {
  SlotSharers sharers;
  for (auto slot : module.getOps<plan_ir::SlotOp>())
    for (FlatSymbolRefAttr shared : {slot.getSameAsAtOneRankAttr(), slot.getSameAsIfAccumulatingAttr()})
      if (shared)
        sharers[shared.getAttr()].push_back(slot);
  return sharers;
}

SlotsByName slotsByName(ModuleOp module) {
  SlotsByName slots;
  for (auto slot : module.getOps<plan_ir::SlotOp>())
    slots[slot.getSymNameAttr()] = slot;
  return slots;
}

void replaceSlot(plan_ir::StepOpInterface step, StringAttr from, FlatSymbolRefAttr to) {
  SmallVector<Attribute> slots;
  for (auto operand : step.getStepSlots().getAsRange<plan_ir::OperandAttr>())
    if (operand.getSlot().getAttr() != from)
      slots.push_back(operand);
    else if (to)
      slots.push_back(plan_ir::OperandAttr::get(step->getContext(), operand.getAccess(), to, operand.getOffset(),
                                                operand.getBytes(), operand.getOwnShard()));
  step->setAttr("slots", ArrayAttr::get(step->getContext(), slots));
}

} // namespace ztc
