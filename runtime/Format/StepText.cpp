#include "runtime/Format/StepText.h"
#include "runtime/Format/Steps/StepDefinition.h"

namespace ztc {

std::string stepKindText(const plan::Plan &plan, const plan::Step &step) {
  const StepDefinition *definition = definitionOf(step);
  const std::string text = definition ? definition->text(plan, step) : "nothing";
  const char *condition = step.only_if_accumulating()  ? " (of several micro-steps)"
                          : step.unless_accumulating() ? " (of a single micro-step)"
                                                       : "";
  const char *owner = !step.owned_parameter() ? ""
                      : step.unless_owner()   ? " (all ranks but the matrix' owner)"
                                              : " (the matrix' owner)";
  return text + condition + owner;
}

std::string stepCallText(const plan::Plan &plan, const plan::Step &step) {
  const StepDefinition *definition = definitionOf(step);
  return definition ? definition->callText(plan, step) : "nothing";
}

} // namespace ztc
