#include "runtime/Memory/StepBytes.h"
#include "runtime/Format/Steps/StepDefinition.h"

namespace ztc {

uint64_t stepBytes(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape, const plan::Step &step) {
  const StepDefinition *definition = definitionOf(step);
  const auto slotBytes = [&](uint32_t slot) { return slot < memory.slots.size() ? memory.slots[slot].bytes : 0; };
  return definition ? definition->bytes({plan, step, slotBytes, shape.world, shape.accumulate, shape.threads == 0}) : 0;
}

} // namespace ztc
