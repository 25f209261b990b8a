#include "runtime/Format/StepText.h"
#include "runtime/Format/Steps/StepDefinition.h"

namespace ztc {

std::string stepKindText(const plan::Plan &plan, const plan::Step &step) {
  const StepDefinition *definition = definitionOf(step);
  return definition ? definition->text(plan, step) : "nothing";
}

std::string stepCallText(const plan::Plan &plan, const plan::Step &step) {
  const StepDefinition *definition = definitionOf(step);
  return definition ? definition->callText(plan, step) : "nothing";
}

} // namespace ztc
