#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Pieces.h"
#include <algorithm>

namespace ztc {

const StepDefinition *definitionOf(const plan::Step &step) {
  switch (step.kind_case()) {
#define ZTC_STEP(name)                                                                                                 \
  case plan::Step::k##name:                                                                                            \
    return &define##name();
#include "runtime/Format/Steps/StepKinds.def"
  case plan::Step::KIND_NOT_SET:
    return nullptr;
  }
  return nullptr;
}

StepWork workOf(const plan::Plan &plan, const plan::Step &step) {
  const StepDefinition *definition = definitionOf(step);
  return definition ? definition->work(plan, step) : StepWork::None;
}

bool isProduct(StepWork work) {
  switch (work) {
  case StepWork::Product:
  case StepWork::NarrowProduct:
  case StepWork::Fp8Product:
  case StepWork::Attention:
  case StepWork::NarrowAttention:
    return true;
  case StepWork::None:
  case StepWork::Kernel:
  case StepWork::Wire:
  case StepWork::HostLink:
  case StepWork::DiskLink:
  case StepWork::HostKernel:
    return false;
  }
  return false;
}

uint64_t StepSizes::operandBytes(int index) const {
  const plan::Operand &operand = step.operands(index);
  if (operand.slot() >= uint32_t(plan.slots_size()))
    return 0;
  const uint64_t slot = slotBytes(operand.slot());
  uint64_t present = operand.own_shard() ? slot / world
                     : operand.bytes()   ? operand.bytes()
                                         : slot - std::min(slot, operand.offset());
  if (operand.piece_elements())
    present = pieceBytes(plan.slots(int(operand.slot())).size(), operand, present).bytes;
  return present * (operand.access() == plan::Operand::READ_WRITE ? 2 : 1);
}

uint64_t StepSizes::operandBytes(bool withScratch) const {
  uint64_t bytes = 0;
  for (int i = 0; i < step.operands_size(); ++i) {
    const uint32_t slot = step.operands(i).slot();
    if (withScratch || slot >= uint32_t(plan.slots_size()) || plan.slots(int(slot)).slot_class() != plan::WORKSPACE)
      bytes += operandBytes(i);
  }
  return bytes;
}

} // namespace ztc
