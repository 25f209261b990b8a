// Rows added to a table by index, in order of the rows.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>
#include <numeric>

namespace ztc {

using namespace plan;

namespace {

class ScatterAddDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const ScatterAdd &scatter = check.step.scatter_add();
    ZTC_RETURN_IF_ERROR(StepCheck::real(scatter.type()));
    ZTC_RETURN_IF_ERROR(StepCheck::accumulation(scatter.accumulate()));
    ZTC_RETURN_IF_ERROR(check.count(3));
    const uint64_t lanes = std::gcd(scatter.width(), 16 / dataTypeBytes(scatter.type()));
    ZTC_RETURN_IF_ERROR(
        check.gpuServices(scatter, {fmt::format("gpu_scatter_add{}_{}", kernelTypeSuffix(scatter.type()), lanes)}));
    ZTC_RETURN_IF_ERROR(check.holds(0, "indices", CheckedBytes(scatter.rows()) * 4));
    ZTC_RETURN_IF_ERROR(
        check.holds(1, "dy", CheckedBytes(scatter.rows()) * scatter.width() * dataTypeBytes(scatter.type())));
    return check.holds(2, "dtable", CheckedBytes(scatter.table_rows()) * scatter.width() * 4);
  }

  std::string text(const Plan &, const Step &step) const override {
    const ScatterAdd &scatter = step.scatter_add();
    return fmt::format("scatter_add {} rows of {}{}{}", scatter.rows(), scatter.width(), typeText(scatter.type()),
                       accumulateText(scatter.accumulate()));
  }

  const char *family(const Step &) const override { return "embedding"; }

  /// Rows by index, as many as there are, and zeros first where nothing is added to: that is its share of them in which
  /// the first micro-step differs.
  uint64_t bytes(const StepSizes &sizes) const override {
    const ScatterAdd &scatter = sizes.step.scatter_add();
    const uint64_t row = scatter.width() * (dataTypeBytes(scatter.type()) + 2 * sizeof(float));
    const uint64_t zeroes = scatter.table_rows() * scatter.width() * sizeof(float);
    return scatter.rows() * (row + sizeof(int32_t)) + (scatter.accumulate() == ADD ? 0
                                                       : scatter.accumulate() == ADD_UNLESS_FIRST
                                                           ? zeroes / std::max<uint64_t>(1, sizes.microSteps)
                                                           : zeroes);
  }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernel", "rows are added in order of position",
                        gpuKernelsOf(step.scatter_add()));
  }
};

} // namespace

const StepDefinition &defineScatterAdd() {
  static const ScatterAddDefinition definition;
  return definition;
}

} // namespace ztc
