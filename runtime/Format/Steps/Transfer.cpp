// Buffers of checkpoints, exports and gradient dumps: planned, never executed.
#include "runtime/Format/Steps/StepDefinition.h"

namespace ztc {

using namespace plan;

namespace {

class TransferDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &) const override { return Status::ok(); }
  std::string text(const Plan &, const Step &) const override {
    return "transfer buffers (checkpoint, export, gradient dump)";
  }
  const char *family(const Step &) const override { return "events"; }
  uint64_t bytes(const StepSizes &) const override { return 0; }
  StepWork work(const Plan &, const Step &) const override { return StepWork::None; }
};

} // namespace

const StepDefinition &defineTransfer() {
  static const TransferDefinition definition;
  return definition;
}

} // namespace ztc
