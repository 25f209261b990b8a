#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/Shards.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

StatusOr<MatmulCache *> HostResources::matmulCache() {
  if (!matmuls) {
    ZTC_ASSIGN_OR_RETURN(const OneDnn *library, OneDnn::load(oneDnnLibrary));
    matmuls = std::make_unique<MatmulCache>(*library, pool.threads());
  }
  return matmuls.get();
}

Status HostStep::resolve(const HostPrepare &from, std::initializer_list<int> counts) {
  const plan::Step &step = from.step;
  if (counts.size() != 0 && std::find(counts.begin(), counts.end(), step.operands_size()) == counts.end())
    return dataLoss(fmt::format("the step has {} operands, {} expected", step.operands_size(), *counts.begin()));
  const std::vector<SlotPlacement> &slots = from.context.memory.slots;
  for (const plan::Operand &operand : step.operands()) {
    if (operand.slot() >= slots.size())
      return dataLoss(fmt::format("operand {} names slot {} of {}", operands_.size(), operand.slot(), slots.size()));
    const SlotPlacement &slot = slots[operand.slot()];
    if (operand.own_shard()) {
      // From the form, not from the slot's bytes: those are rounded up.
      const plan::SizeForm &size = from.context.plan.slots(int(operand.slot())).size();
      const uint64_t shard = shardElements(size.elements(), from.context.shape.world) * size.element_bytes();
      const uint64_t offset = shard * from.context.rank;
      if (size.kind() != plan::SizeForm::FULL || offset > slot.bytes || shard > slot.bytes - offset)
        return dataLoss(fmt::format("operand {} is the own shard of slot {}, which is no full bucket", operands_.size(),
                                    operand.slot()));
      operands_.push_back({slot.offset + offset, shard});
      continue;
    }
    if (operand.offset() > slot.bytes || operand.bytes() > slot.bytes - operand.offset())
      return dataLoss(fmt::format("operand {} leaves its slot {}: {} bytes at {} of {}", operands_.size(),
                                  operand.slot(), operand.bytes(), operand.offset(), slot.bytes));
    operands_.push_back(
        {slot.offset + operand.offset(), operand.bytes() ? operand.bytes() : slot.bytes - operand.offset()});
  }
  pointers_.resize(operands_.size());
  return Status::ok();
}

Status HostStep::require(const HostPrepare &from, size_t index, uint64_t bytes) const {
  if (operands_[index].bytes >= bytes)
    return Status::ok();
  return dataLoss(fmt::format("operand {} has {} bytes, {} needed", index, operands_[index].bytes, bytes));
}

Status HostStep::requireElements(const HostPrepare &from, size_t index, std::initializer_list<uint64_t> sizes,
                                 uint64_t elementBytes) const {
  uint64_t bytes = elementBytes;
  for (uint64_t size : sizes)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return dataLoss(fmt::format("the size of operand {} overflows", index));
  return require(from, index, bytes);
}

} // namespace ztc
