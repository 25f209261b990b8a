// Rows of a table by index.
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include <fmt/format.h>
#include <numeric>

namespace ztc {

using namespace plan;

namespace {

class GatherDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const Gather &gather = check.step.gather();
    ZTC_RETURN_IF_ERROR(check.count(3));
    if (gather.divisor() > INT32_MAX) // indices are i32
      return dataLoss(fmt::format("rows by index divided by {}", gather.divisor()));
    ZTC_RETURN_IF_ERROR(
        check.gpuServices(gather, {fmt::format("gpu_gather_{}{}", gather.divisor() > 1 ? "divided_" : "",
                                               std::gcd(gather.row_bytes(), uint64_t(16)))}));
    ZTC_RETURN_IF_ERROR(check.holds(0, "table", CheckedBytes(gather.table_rows()) * gather.row_bytes()));
    ZTC_RETURN_IF_ERROR(check.holds(1, "indices", CheckedBytes(gather.rows()) * 4));
    return check.holds(2, "result", CheckedBytes(gather.rows()) * gather.row_bytes());
  }

  std::string text(const Plan &, const Step &step) const override {
    const Gather &gather = step.gather();
    return fmt::format("gather {} rows of {} bytes{}", gather.rows(), gather.row_bytes(),
                       gather.divisor() ? fmt::format(", {} choices each", gather.divisor()) : "");
  }

  /// With a divisor indices are choices of experts.
  const char *family(const Step &step) const override { return step.gather().divisor() ? "routing" : "embedding"; }

  /// Rows by index, as many as there are.
  uint64_t bytes(const StepSizes &sizes) const override {
    const Gather &gather = sizes.step.gather();
    return gather.rows() * (2 * gather.row_bytes() + sizeof(int32_t));
  }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernel", "rows by index", gpuKernelsOf(step.gather()));
  }
};

} // namespace

const StepDefinition &defineGather() {
  static const GatherDefinition definition;
  return definition;
}

} // namespace ztc
