#include "runtime/Format/OrderValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include <fmt/format.h>
#include <map>
#include <optional>

namespace ztc {

using namespace plan;

namespace {

/// Where an event was recorded.
struct Recorded {
  const Program *program;
  uint32_t stream;
  bool onlyLast;
};

class OrderChecker {
public:
  explicit OrderChecker(const Plan &plan) : plan_(plan) {}

  Status check() {
    for (const Program &program : plan_.programs()) {
      lastOrder_.reset();
      for (int i = 0; i < program.steps_size(); ++i)
        if (Status status = checkStep(program, program.steps(i)); !status.isOk())
          return status.withContext(fmt::format("{} step {} '{}'", program.name(), i, program.steps(i).name()));
    }
    return Status::ok();
  }

private:
  Status checkStep(const Program &program, const Step &step) {
    if (step.stream() > 1)
      return dataLoss(fmt::format("stream {}, but there are two", step.stream()));
    if (const StepDefinition *definition = definitionOf(step);
        step.stream() == 1 && !(definition && definition->isCommunication()))
      return dataLoss("it computes on the stream of the collectives");
    if (step.only_last_microstep() && program.name() != "microstep")
      return dataLoss("a step of the last micro-step outside of microstep");
    if (step.has_collective()) {
      const uint64_t order = step.collective().launch_order();
      if (lastOrder_ && order <= *lastOrder_)
        return dataLoss(fmt::format("launch order {} after {}", order, *lastOrder_));
      lastOrder_ = order;
    }
    if (step.has_record()) {
      const uint32_t event = step.record().event();
      if (!recorded_.try_emplace(event, Recorded{&program, step.stream(), step.only_last_microstep()}).second)
        return dataLoss(fmt::format("event {} is recorded twice", event));
    }
    return step.has_wait() ? checkWait(program, step) : Status::ok();
  }

  Status checkWait(const Program &program, const Step &step) const {
    const uint32_t event = step.wait().event();
    const auto found = recorded_.find(event);
    if (found == recorded_.end() || found->second.program != &program)
      return dataLoss(fmt::format("event {} is not recorded before it in its program", event));
    if (found->second.stream == step.stream())
      return dataLoss(fmt::format("stream {} waits for event {}, its own", step.stream(), event));
    if (found->second.onlyLast && !step.only_last_microstep())
      return dataLoss(fmt::format("it waits in every micro-step for event {}, which only the last one records", event));
    return Status::ok();
  }

  const Plan &plan_;
  std::map<uint32_t, Recorded> recorded_;
  std::optional<uint64_t> lastOrder_;
};

} // namespace

Status validateOrder(const Plan &plan) {
  return OrderChecker(plan).check();
}

} // namespace ztc
