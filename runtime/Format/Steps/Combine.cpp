// Of each token the sum of its choices' rows.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>
#include <numeric>

namespace ztc {

using namespace plan;

namespace {

class CombineDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const Combine &combine = check.step.combine();
    ZTC_RETURN_IF_ERROR(StepCheck::real(combine.type()));
    ZTC_RETURN_IF_ERROR(check.count(3));
    if (!combine.rows() || !combine.choices() || !combine.width())
      return dataLoss(fmt::format("sums of {} rows of {} for each of {} tokens", combine.choices(), combine.width(),
                                  combine.rows()));
    const uint64_t lanes = std::gcd(combine.width(), 16 / dataTypeBytes(combine.type()));
    ZTC_RETURN_IF_ERROR(
        check.gpuServices(combine, {fmt::format("gpu_combine{}_{}", kernelTypeSuffix(combine.type()), lanes)}));
    const CheckedBytes rows = CheckedBytes(combine.rows()) * combine.choices();
    const CheckedBytes rowBytes = CheckedBytes(combine.width()) * dataTypeBytes(combine.type());
    ZTC_RETURN_IF_ERROR(check.holds(0, "x", rows * rowBytes));
    ZTC_RETURN_IF_ERROR(check.holds(1, "places", rows * 4));
    return check.holds(2, "result", CheckedBytes(combine.rows()) * rowBytes);
  }

  std::string text(const Plan &, const Step &step) const override {
    const Combine &combine = step.combine();
    return fmt::format("combine {}x{} rows of {}{}", combine.rows(), combine.choices(), combine.width(),
                       typeText(combine.type()));
  }

  const char *family(const Step &) const override { return "routing"; }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernel", "rows by index, added in order of the choices",
                        gpuKernelsOf(step.combine()));
  }
};

} // namespace

const StepDefinition &defineCombine() {
  static const CombineDefinition definition;
  return definition;
}

} // namespace ztc
