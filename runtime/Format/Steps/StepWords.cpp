#include "runtime/Format/Steps/StepWords.h"
#include "runtime/Format/PlanValidator.h"
#include <fmt/format.h>

namespace ztc {

const char *accumulateText(plan::Accumulate accumulate) {
  return accumulate == plan::ADD ? " +=" : accumulate == plan::ADD_UNLESS_FIRST ? " += (first micro-step: =)" : "";
}

std::string typeText(plan::DataType type) {
  return type == plan::F32 ? "" : fmt::format(" {}", dataTypeName(type));
}

const char *lastOnlyText(const plan::Step &step) {
  if (step.only_first_microstep())
    return step.unless_carried() ? " (first micro-step only, unless the update has gathered)"
                                 : " (first micro-step only)";
  if (step.unless_carried())
    return " (unless the update has gathered)";
  return step.only_last_microstep() ? " (last micro-step only)" : "";
}

std::string bucketText(const plan::Plan &plan, uint32_t bucket) {
  return bucket < uint32_t(plan.buckets_size()) ? plan.buckets(int(bucket)).name() : "?";
}

} // namespace ztc
