#include "runtime/Format/StepValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"

namespace ztc {

Status validateStep(const plan::Plan &plan, const std::vector<uint64_t> &slotBytes, const plan::Step &step) {
  const StepCheck check(plan, slotBytes, step);
  ZTC_RETURN_IF_ERROR(check.operands());
  const StepDefinition *definition = definitionOf(step);
  return definition ? definition->validate(check) : dataLoss("it has no kind, or one that this program does not know");
}

} // namespace ztc
