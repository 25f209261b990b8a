#include "runtime/Memory/StepBytes.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>

namespace ztc {

/// Bytes of the operand, by what it names of its slot.
static uint64_t operandBytes(const MemoryPlan &memory, const PlanShape &shape, const plan::Operand &operand) {
  if (operand.slot() >= memory.slots.size())
    return 0;
  const uint64_t slot = memory.slots[operand.slot()].bytes;
  if (operand.own_shard())
    return slot / shape.world;
  return operand.bytes() ? operand.bytes() : slot - std::min(slot, operand.offset());
}

uint64_t stepBytes(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape, const plan::Step &step) {
  switch (step.kind_case()) {
  case plan::Step::kRecord:
  case plan::Step::kWait:
  case plan::Step::kTransfer:
    return 0;
  case plan::Step::kCollective: // one rank has everything already
    if (shape.world == 1)
      return 0;
    break;
  case plan::Step::kGather: {
    const plan::Gather &gather = step.gather();
    return gather.rows() * (2 * gather.row_bytes() + sizeof(int32_t));
  }
  case plan::Step::kScatterAdd: {
    const plan::ScatterAdd &scatter = step.scatter_add();
    const bool zeroes = scatter.accumulate() != plan::ADD;
    const uint64_t row = scatter.width() * (dataTypeBytes(scatter.type()) + 2 * sizeof(float));
    return scatter.rows() * (row + sizeof(int32_t)) +
           (zeroes ? scatter.table_rows() * scatter.width() * sizeof(float) : 0);
  }
  default:
    break;
  }
  uint64_t bytes = 0;
  for (const plan::Operand &operand : step.operands()) {
    const bool isScratch =
        operand.slot() < uint32_t(plan.slots_size()) && plan.slots(int(operand.slot())).slot_class() == plan::WORKSPACE;
    if (isScratch && !step.has_launch())
      continue;
    bytes += operandBytes(memory, shape, operand) * (operand.access() == plan::Operand::READ_WRITE ? 2 : 1);
  }
  return bytes;
}

} // namespace ztc
