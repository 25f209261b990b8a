// The order of choices by expert.
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class RouteDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const Route &route = check.step.route();
    ZTC_RETURN_IF_ERROR(check.count(4));
    // Rows are numbers of i32.
    const CheckedBytes rows = CheckedBytes(route.tokens()) * route.choices();
    if (!route.tokens() || !route.choices() || !rows.isValid() || rows.value() > INT32_MAX)
      return dataLoss(fmt::format("{} choices of each of {} tokens", route.choices(), route.tokens()));
    if (!route.experts() || route.experts() > INT32_MAX)
      return dataLoss(fmt::format("a choice of {} experts", route.experts()));
    ZTC_RETURN_IF_ERROR(check.gpuServices(route, {"gpu_route_count", "gpu_route_places", "gpu_route_order"}));
    ZTC_RETURN_IF_ERROR(check.holds(0, "choices", rows * 4));
    ZTC_RETURN_IF_ERROR(check.holds(1, "order", rows * 4));
    ZTC_RETURN_IF_ERROR(check.holds(2, "places", rows * 4));
    return check.holds(3, "starts", CheckedBytes(route.experts() + 1) * 4);
  }

  std::string text(const Plan &, const Step &step) const override {
    const Route &route = step.route();
    return fmt::format("route {}x{} choices to {} experts", route.tokens(), route.choices(), route.experts());
  }

  const char *family(const Step &) const override { return "routing"; }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernels", "choices in order of experts, a stable counting sort",
                        gpuKernelsOf(step.route()));
  }
};

} // namespace

const StepDefinition &defineRoute() {
  static const RouteDefinition definition;
  return definition;
}

} // namespace ztc
