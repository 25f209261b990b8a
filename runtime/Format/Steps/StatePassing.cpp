// The states before each chunk of positions, one after the other.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StatePassingOperands.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class StatePassingDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const StatePassing &passing = check.step.state_passing();
    const StatePassingOperands operands(passing);
    ZTC_RETURN_IF_ERROR(check.count(operands.count()));
    const uint64_t sizes[] = {passing.chunks(), passing.rows(), passing.keys(), passing.values()};
    for (uint64_t size : sizes)
      if (!size || size > INT32_MAX)
        return dataLoss(fmt::format("{} chunks of {} states of {} x {}", passing.chunks(), passing.rows(),
                                    passing.keys(), passing.values()));
    if (passing.positions() > INT32_MAX)
      return dataLoss(fmt::format("chunks of {} positions", passing.positions()));
    if (!passing.positions() && !passing.plus())
      return dataLoss("states to which nothing is added");
    const uint64_t keys = passing.decay_keys(), parts = passing.decay_parts();
    if (keys ? (keys != 1 && keys != passing.keys()) || !parts || passing.values() % parts : parts != 0)
      return dataLoss(fmt::format("decays {} x {} of states {} x {}", keys, parts, passing.keys(), passing.values()));
    ZTC_RETURN_IF_ERROR(
        check.gpuServices(passing, {passing.positions() ? "gpu_state_passing_products" : "gpu_state_passing_sums"}));
    for (const StatePassingOperands::Operand &operand : operands.all())
      if (operand.index >= 0)
        ZTC_RETURN_IF_ERROR(check.holds(operand.index, operand.name, operand.bytes));
    return Status::ok();
  }

  std::string text(const Plan &, const Step &step) const override {
    const StatePassing &p = step.state_passing();
    return fmt::format("state_passing {} chunks{} of {} states {}x{}{}{}", p.chunks(), p.reverse() ? " in reverse" : "",
                       p.rows(), p.keys(), p.values(),
                       p.positions() ? fmt::format(" by {} positions", p.positions()) : "",
                       p.decay_keys() ? fmt::format(", decays {}x{}", p.decay_keys(), p.decay_parts()) : "");
  }

  const char *family(const Step &) const override { return "linear attention"; }

  StepWork work(const Plan &, const Step &step) const override {
    return step.state_passing().positions() ? StepWork::Product : StepWork::Kernel;
  }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, step.state_passing().positions() ? "own products" : "own loop", "own kernel",
                        "chunk after chunk, as many states at a time as there are", gpuKernelsOf(step.state_passing()));
  }
};

} // namespace

const StepDefinition &defineStatePassing() {
  static const StatePassingDefinition definition;
  return definition;
}

} // namespace ztc
