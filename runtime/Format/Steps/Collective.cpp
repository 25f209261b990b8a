// What the ranks of an axis send one another: a bucket's shards, their sums, or a scalar's sum.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

/// Operand `index` is a whole slot of the bucket in the type of the collective, of this form.
Status checkBucketSlot(const StepCheck &check, int index, const char *name, SizeForm::Kind kind) {
  const Collective &collective = check.step.collective();
  const Slot &slot = check.slotOf(index);
  const Operand &operand = check.step.operands(index);
  if (slot.size().kind() != kind || operand.offset() || operand.bytes() ||
      slot.size().elements() != check.plan.buckets(static_cast<int>(collective.bucket())).elements() ||
      slot.size().element_bytes() != dataTypeBytes(collective.type()))
    return dataLoss(fmt::format("operand {} ({}): slot {} '{}' is not the whole {} of bucket {}", index, name,
                                operand.slot(), slot.name(), kind == SizeForm::FULL ? "length" : "shard",
                                collective.bucket()));
  return Status::ok();
}

/// A buffer for what other ranks send: it exists where there are others.
Status checkReceiveBuffer(const StepCheck &check, int index) {
  const Slot &slot = check.slotOf(index);
  if (slot.slot_class() != COMMUNICATION || slot.size().kind() != SizeForm::FULL || slot.size().elements() == 0 ||
      slot.size().element_bytes() != dataTypeBytes(check.step.collective().type()) ||
      check.step.operands(index).own_shard())
    return dataLoss(fmt::format("operand {} (scratch): slot {} '{}' is not a receive buffer", index,
                                check.step.operands(index).slot(), slot.name()));
  return Status::ok();
}

/// At one rank nothing is copied: the shard is the full slot's own, or a slot whose storage the full slot shares.
Status checkAllGather(const StepCheck &check) {
  const Operand &shard = check.step.operands(0), &full = check.step.operands(1);
  ZTC_RETURN_IF_ERROR(checkBucketSlot(check, 0, "shard", shard.own_shard() ? SizeForm::FULL : SizeForm::SHARD));
  ZTC_RETURN_IF_ERROR(checkBucketSlot(check, 1, "full", SizeForm::FULL));
  if (full.own_shard() ||
      (shard.own_shard() ? shard.slot() != full.slot() : check.slotOf(1).same_as_at_one_rank() != shard.slot() + 1))
    return dataLoss(fmt::format("at one rank slot {} would not be slot {}", full.slot(), shard.slot()));
  return Status::ok();
}

const char *nameOf(Collective::Kind kind) {
  switch (kind) {
  case Collective::ALL_GATHER:
    return "all_gather";
  case Collective::REDUCE_SCATTER:
    return "reduce_scatter";
  case Collective::ALL_REDUCE:
    return "all_reduce";
  case Collective::ALL_REDUCE_MAX:
    return "all_reduce_max";
  default:
    return "collective";
  }
}

/// Of numbers that belong to no bucket.
bool isReduction(const Collective &collective) {
  return collective.kind() == Collective::ALL_REDUCE || collective.kind() == Collective::ALL_REDUCE_MAX;
}

class CollectiveDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const Collective &collective = check.step.collective();
    if (!Collective::Kind_IsValid(collective.kind()))
      return dataLoss(fmt::format("unknown collective {}", int(collective.kind())));
    if (!isReduction(collective))
      ZTC_RETURN_IF_ERROR(check.bucket(collective.bucket()));
    if (collective.axis().empty())
      return dataLoss("a collective over no axis");
    const bool isScalar = isReduction(collective);
    const bool isBytes =
        (collective.type() == U8 || collective.type() == E4M3) && collective.kind() == Collective::ALL_GATHER;
    if (collective.type() != F32 && !isBytes && (isScalar || !isNarrow(collective.type())))
      return dataLoss(fmt::format("a collective of type {}", dataTypeName(collective.type())));
    ZTC_RETURN_IF_ERROR(check.count(2));
    switch (collective.kind()) {
    case Collective::REDUCE_SCATTER:
      ZTC_RETURN_IF_ERROR(checkBucketSlot(check, 0, "full", SizeForm::FULL));
      if (check.step.operands(0).own_shard())
        return dataLoss("operand 0 (full): only a shard of it");
      return checkReceiveBuffer(check, 1);
    case Collective::ALL_REDUCE:
      ZTC_RETURN_IF_ERROR(check.holds(0, "value", 4));
      return checkReceiveBuffer(check, 1);
    case Collective::ALL_REDUCE_MAX:
      if (!check.step.operands(0).bytes() || check.step.operands(0).bytes() % sizeof(float))
        return dataLoss(fmt::format("maxima of {} bytes", check.step.operands(0).bytes()));
      ZTC_RETURN_IF_ERROR(check.holds(0, "values", check.step.operands(0).bytes()));
      return checkReceiveBuffer(check, 1);
    default:
      return checkAllGather(check);
    }
  }

  std::string text(const Plan &plan, const Step &step) const override {
    const Collective &c = step.collective();
    const bool isScalar = isReduction(c);
    return fmt::format("{} {} over \"{}\", {}, launch {}{}", nameOf(c.kind()),
                       c.kind() == Collective::ALL_REDUCE ? "scalar"
                       : isScalar                         ? "maxima"
                                                          : bucketText(plan, c.bucket()),
                       c.axis(), dataTypeName(c.type()), c.launch_order(), lastOnlyText(step));
  }
  std::string callText(const Plan &, const Step &step) const override { return nameOf(step.collective().kind()); }
  const char *family(const Step &) const override { return "collectives"; }

  /// One rank has everything already.
  uint64_t bytes(const StepSizes &sizes) const override {
    return sizes.world == 1 ? 0 : sizes.operandBytes(/*withScratch=*/false);
  }
  StepWork work(const Plan &, const Step &) const override { return StepWork::Wire; }
  bool isCommunication() const override { return true; }
  std::vector<CallExecution> executions(const Plan &, const Step &, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "Gloo", "NCCL", "nothing at one rank");
  }
};

} // namespace

const StepDefinition &defineCollective() {
  static const CollectiveDefinition definition;
  return definition;
}

} // namespace ztc
