// Holds a stream back until an event.
#include "runtime/Format/Steps/StepDefinition.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class WaitDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override { return StepCheck::event(check.step.wait().event()); }
  std::string text(const Plan &, const Step &step) const override {
    return fmt::format("wait event {}", step.wait().event());
  }
  std::string callText(const Plan &, const Step &) const override { return "wait"; }
  const char *family(const Step &) const override { return "events"; }
  uint64_t bytes(const StepSizes &) const override { return 0; }
  StepWork work(const Plan &, const Step &) const override { return StepWork::None; }
  bool isCommunication() const override { return true; }
};

} // namespace

const StepDefinition &defineWait() {
  static const WaitDefinition definition;
  return definition;
}

} // namespace ztc
