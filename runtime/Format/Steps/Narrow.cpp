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

/// Operand 0 is a slot of its own, operand 1 the range of a bucket, in whole vectors of a GPU, that it is rounded to.
Status checkRange(const StepCheck &check, const Narrow &narrow) {
  constexpr uint64_t kVector = 8;
  const Operand &from = check.step.operands(0), &to = check.step.operands(1);
  const Slot &bucket = check.slotOf(1);
  const uint64_t bytes = dataTypeBytes(narrow.to()), elements = to.bytes() / bytes;
  if (bucket.size().kind() != SizeForm::FULL || bucket.size().element_bytes() != bytes || to.own_shard() ||
      to.offset() % (kVector * bytes) || to.bytes() % (kVector * bytes))
    return dataLoss(
        fmt::format("operand 1 (to): {} bytes from {} of slot {} '{}' are not vectors of a whole bucket of {}",
                    to.bytes(), to.offset(), to.slot(), bucket.name(), dataTypeName(narrow.to())));
  if (from.slot() == to.slot() || check.bytes(0) != elements * dataTypeBytes(narrow.from()))
    return dataLoss(
        fmt::format("rounding {} bytes of {} to {} elements", check.bytes(0), dataTypeName(narrow.from()), elements));
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
    if (check.step.operands(1).bytes())
      return checkRange(check, narrow);
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
    const Operand *to = step.operands_size() > 1 ? &step.operands(1) : nullptr;
    const uint64_t bytes = dataTypeBytes(step.narrow().to());
    const std::string range =
        to && to->bytes() && bytes ? fmt::format(", {} elements", to->bytes() / bytes) : std::string();
    return fmt::format("round {} to {}{}{}", dataTypeName(step.narrow().from()), dataTypeName(step.narrow().to()),
                       range, lastOnlyText(step));
  }
  const char *family(const Step &) const override { return "rounding"; }
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
