// Bytes from one place to another.
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class CopyDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    ZTC_RETURN_IF_ERROR(check.count(2));
    ZTC_RETURN_IF_ERROR(check.holds(0, "from", check.step.copy().bytes()));
    return check.holds(1, "to", check.step.copy().bytes());
  }
  std::string text(const Plan &, const Step &step) const override {
    return fmt::format("copy {} bytes", step.copy().bytes());
  }
  const char *family(const Step &) const override { return "copies and fills"; }
  std::vector<CallExecution> executions(const Plan &, const Step &, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "memory", "CUDA driver", "no arithmetic");
  }
};

} // namespace

const StepDefinition &defineCopy() {
  static const CopyDefinition definition;
  return definition;
}

} // namespace ztc
