// A bucket or the rank's shard of it, rounded to a narrower type.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

/// Operand `index` is a whole slot of form FULL or SHARD in that type.
Status checkBucketSlot(const StepCheck &check, int index, const char *name, DataType type) {
  const Slot &slot = check.slotOf(index);
  const Operand &operand = check.step.operands(index);
  const bool isBucket = slot.size().kind() == SizeForm::FULL || slot.size().kind() == SizeForm::SHARD;
  if (!isBucket || operand.offset() || operand.bytes() || operand.own_shard() ||
      slot.size().element_bytes() != dataTypeBytes(type))
    return dataLoss(fmt::format("operand {} ({}): slot {} '{}' is not a bucket or shard of {}", index, name,
                                operand.slot(), slot.name(), dataTypeName(type)));
  return Status::ok();
}

class NarrowDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const Narrow &narrow = check.step.narrow();
    ZTC_RETURN_IF_ERROR(check.count(2));
    if (narrow.from() != F32 || !isNarrow(narrow.to()))
      return dataLoss(fmt::format("rounding from {} to {}", dataTypeName(narrow.from()), dataTypeName(narrow.to())));
    ZTC_RETURN_IF_ERROR(check.gpuServices(narrow, {"gpu_narrow" + kernelTypeSuffix(narrow.to())}));
    ZTC_RETURN_IF_ERROR(checkBucketSlot(check, 0, "from", narrow.from()));
    ZTC_RETURN_IF_ERROR(checkBucketSlot(check, 1, "to", narrow.to()));
    const SizeForm &from = check.slotOf(0).size(), &to = check.slotOf(1).size();
    if (from.kind() != to.kind())
      return dataLoss("rounding a bucket to a shard, or a shard to a bucket");
    if (from.elements() != to.elements())
      return dataLoss(fmt::format("rounding {} elements to {}", from.elements(), to.elements()));
    return Status::ok();
  }

  std::string text(const Plan &, const Step &step) const override {
    return fmt::format("round {} to {}{}", dataTypeName(step.narrow().from()), dataTypeName(step.narrow().to()),
                       lastOnlyText(step));
  }
  const char *family(const Step &) const override { return "events"; }
  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernel", "a whole bucket, in place", gpuKernelsOf(step.narrow()));
  }
};

} // namespace

const StepDefinition &defineNarrow() {
  static const NarrowDefinition definition;
  return definition;
}

} // namespace ztc
