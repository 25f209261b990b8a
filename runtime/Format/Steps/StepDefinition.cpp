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

uint64_t StepSizes::operandBytes(bool withScratch) const {
  uint64_t bytes = 0;
  for (const plan::Operand &operand : step.operands()) {
    if (operand.slot() >= uint32_t(plan.slots_size()) ||
        (!withScratch && plan.slots(int(operand.slot())).slot_class() == plan::WORKSPACE))
      continue;
    const uint64_t slot = slotBytes(operand.slot());
    uint64_t present = operand.own_shard() ? slot / world
                       : operand.bytes()   ? operand.bytes()
                                           : slot - std::min(slot, operand.offset());
    if (operand.piece_elements())
      present = pieceBytes(plan.slots(int(operand.slot())).size(), operand, present).bytes;
    bytes += present * (operand.access() == plan::Operand::READ_WRITE ? 2 : 1);
  }
  return bytes;
}

} // namespace ztc
