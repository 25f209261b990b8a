// One value in every byte of a place.
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class FillDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override { return check.count(1); }
  std::string text(const Plan &, const Step &step) const override {
    return fmt::format("fill {}", step.fill().value());
  }
  std::string callText(const Plan &, const Step &) const override { return "fill"; }
  const char *family(const Step &) const override { return "copies and fills"; }
  std::vector<CallExecution> executions(const Plan &, const Step &, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "memory", "CUDA driver", "no arithmetic");
  }
};

} // namespace

const StepDefinition &defineFill() {
  static const FillDefinition definition;
  return definition;
}

} // namespace ztc
