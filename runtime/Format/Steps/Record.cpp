// Marks what a stream has been given so far.
#include "runtime/Format/Steps/StepDefinition.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class RecordDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override { return StepCheck::event(check.step.record().event()); }
  std::string text(const Plan &, const Step &step) const override {
    return fmt::format("record event {}", step.record().event());
  }
  std::string callText(const Plan &, const Step &) const override { return "record"; }
  const char *family(const Step &) const override { return "events"; }
  uint64_t bytes(const StepSizes &) const override { return 0; }
  StepWork work(const Plan &, const Step &) const override { return StepWork::None; }
  bool isCommunication() const override { return true; }
};

} // namespace

const StepDefinition &defineRecord() {
  static const RecordDefinition definition;
  return definition;
}

} // namespace ztc
