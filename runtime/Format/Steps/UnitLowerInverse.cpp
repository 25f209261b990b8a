// The inverse of each matrix with ones on the diagonal and zeros above it.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/RecurrenceKernels.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class UnitLowerInverseDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const UnitLowerInverse &inverse = check.step.unit_lower_inverse();
    ZTC_RETURN_IF_ERROR(check.count(2));
    if (!inverse.count() || inverse.count() > INT32_MAX || !inverse.size() || inverse.size() > kMaxUnitLowerRows)
      return dataLoss(fmt::format("inverses of {} matrices of {} rows", inverse.count(), inverse.size()));
    ZTC_RETURN_IF_ERROR(check.gpuServices(inverse, {"gpu_unit_lower_inverse"}));
    const CheckedBytes bytes = CheckedBytes(inverse.count()) * inverse.size() * inverse.size() * 4;
    ZTC_RETURN_IF_ERROR(check.holds(0, "a", bytes));
    return check.holds(1, "y", bytes);
  }

  std::string text(const Plan &, const Step &step) const override {
    const UnitLowerInverse &inverse = step.unit_lower_inverse();
    return fmt::format("unit_lower_inverse {} x {}x{}", inverse.count(), inverse.size(), inverse.size());
  }

  const char *family(const Step &) const override { return "linear attention"; }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernel", "row after row, each matrix by itself",
                        gpuKernelsOf(step.unit_lower_inverse()));
  }
};

} // namespace

const StepDefinition &defineUnitLowerInverse() {
  static const UnitLowerInverseDefinition definition;
  return definition;
}

} // namespace ztc
