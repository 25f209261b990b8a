#include "runtime/Device/StepOperands.h"
#include "runtime/Format/BlockState.h"
#include "runtime/Format/Pieces.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Shards.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

Status StepOperands::resolve(const plan::Step &step, const PrepareContext &context, std::initializer_list<int> counts) {
  if (counts.size() != 0 && std::find(counts.begin(), counts.end(), step.operands_size()) == counts.end())
    return dataLoss(fmt::format("the step has {} operands, {} expected", step.operands_size(), *counts.begin()));
  const std::vector<SlotPlacement> &slots = context.memory.slots;
  for (const plan::Operand &operand : step.operands()) {
    if (operand.slot() >= slots.size())
      return dataLoss(fmt::format("operand {} names slot {} of {}", places_.size(), operand.slot(), slots.size()));
    const SlotPlacement &slot = slots[operand.slot()];
    if (operand.piece_elements()) {
      ZTC_RETURN_IF_ERROR(resolvePiece(operand, context));
      continue;
    }
    if (operand.own_shard()) {
      // From the form, not from the slot's bytes: those are rounded up.
      const plan::SizeForm &size = context.plan.slots(int(operand.slot())).size();
      const uint64_t shard = ownShardBytes(size, context.shape.world);
      const uint64_t offset = shard * context.rank;
      if (size.kind() != plan::SizeForm::FULL || offset > slot.bytes || shard > slot.bytes - offset)
        return dataLoss(fmt::format("operand {} is the own shard of slot {}, which is not a full bucket",
                                    places_.size(), operand.slot()));
      places_.push_back({slot.offset + offset, shard});
      continue;
    }
    if (operand.offset() > slot.bytes || operand.bytes() > slot.bytes - operand.offset())
      return dataLoss(fmt::format("operand {} leaves its slot {}: {} bytes at {} of {}", places_.size(), operand.slot(),
                                  operand.bytes(), operand.offset(), slot.bytes));
    places_.push_back(
        {slot.offset + operand.offset(), operand.bytes() ? operand.bytes() : slot.bytes - operand.offset()});
  }
  addresses_.resize(places_.size());
  return Status::ok();
}

/// From the form, too: what a slot is rounded up by does not belong to a bucket.
Status StepOperands::resolvePiece(const plan::Operand &operand, const PrepareContext &context) {
  const plan::SizeForm &size = context.plan.slots(int(operand.slot())).size();
  const SlotPlacement &slot = context.memory.slots[operand.slot()];
  const bool isShard = operand.own_shard();
  const uint64_t available =
      isShard
          ? ownShardBytes(size, context.shape.world)
          : sizeFormBytes(size, context.shape.world, context.shape.accumulate > 1, context.shape.threads).value_or(0);
  const uint64_t begin = isShard ? available * context.rank : 0;
  const PieceBytes piece = pieceBytes(size, operand, available);
  if (begin > slot.bytes || available > slot.bytes - begin)
    return dataLoss(fmt::format("operand {} is a piece of slot {}, which has {} bytes", places_.size(), operand.slot(),
                                slot.bytes));
  places_.push_back({slot.offset + begin + piece.offset, piece.bytes});
  return Status::ok();
}

Status StepOperands::require(size_t index, CheckedBytes bytes) const {
  if (!bytes.isValid())
    return dataLoss(fmt::format("the size of operand {} overflows", index));
  if (places_[index].bytes >= bytes.value())
    return Status::ok();
  return dataLoss(fmt::format("operand {} has {} bytes, {} needed", index, places_[index].bytes, bytes.value()));
}

Status StepOperands::requireElements(size_t index, std::initializer_list<uint64_t> sizes, uint64_t elementBytes) const {
  uint64_t bytes = elementBytes;
  for (uint64_t size : sizes)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return dataLoss(fmt::format("the size of operand {} overflows", index));
  return require(index, bytes);
}

StatusOr<LaunchRange> launchRange(const plan::Launch &launch, const PrepareContext &context) {
  if (!launch.flat())
    return LaunchRange{launch.extent(), {launch.scalars().begin(), launch.scalars().end()}};
  if (launch.bucket() >= uint32_t(context.plan.buckets_size()) || launch.flat_block() == 0)
    return dataLoss("a flat launch needs a bucket and a block size");
  // Without the padding at the bucket's end, which may hold anything.
  const plan::Bucket &bucket = context.plan.buckets(int(launch.bucket()));
  const uint64_t elements = bucket.elements();
  ShardRange range = launch.flat_range() == plan::Launch::WHOLE
                         ? ShardRange{0, elements}
                         : shardRange(elements, context.shape.world, context.rank, bucket.quantum());
  if (launch.piece_elements()) {
    const uint64_t skipped = std::min(range.length, launch.piece() * launch.piece_elements());
    range = {range.start + skipped, std::min(launch.piece_elements(), range.length - skipped)};
  }
  // A stated extent holds for an empty shard too: the sum over none of its blocks is zero, and somebody must write it.
  return LaunchRange{launch.extent() ? launch.extent() : (range.length + launch.flat_block() - 1) / launch.flat_block(),
                     {int64_t(range.length), int64_t(range.start)}};
}

StatusOr<std::vector<ShardPart>> shardParts(const plan::Step &step,
                                            const google::protobuf::RepeatedField<int64_t> &ranges, size_t firstOperand,
                                            const PrepareContext &context) {
  std::vector<ShardPart> parts;
  for (int i = 0; i + 2 < ranges.size(); i += 3) {
    const uint64_t operand = firstOperand + uint64_t(ranges[i]);
    if (operand >= uint64_t(step.operands_size()) || ranges[i + 1] < 0 || ranges[i + 2] < ranges[i + 1])
      return dataLoss(fmt::format("the range {} to {} of shard {}", ranges[i + 1], ranges[i + 2], ranges[i]));
    const plan::SizeForm &size = context.plan.slots(int(step.operands(int(operand)).slot())).size();
    const uint64_t shard = shardElements(size.elements(), context.shape.world, size.quantum());
    const uint64_t own = shard * context.rank;
    const uint64_t begin = std::clamp(uint64_t(ranges[i + 1]), own, own + shard);
    const uint64_t end = std::clamp(uint64_t(ranges[i + 2]), own, own + shard);
    parts.push_back(begin < end ? ShardPart{operand, begin - own, end - begin} : ShardPart{operand, 0, 0});
  }
  return parts;
}

StatusOr<uint64_t> shardOfCollective(const plan::Collective &collective, const PrepareContext &context) {
  if (collective.bucket() >= uint32_t(context.plan.buckets_size()) || dataTypeBytes(collective.type()) == 0)
    return dataLoss(fmt::format("a collective of bucket {} and type {}", collective.bucket(), int(collective.type())));
  const plan::Bucket &bucket = context.plan.buckets(int(collective.bucket()));
  return shardElements(bucket.elements(), context.shape.world, bucket.quantum());
}

Status checkCommunicator(const PrepareContext &context) {
  const uint64_t world = context.shape.world;
  if (world == 1)
    return Status::ok();
  if (!context.communicator)
    return failedPrecondition(fmt::format("{} ranks without a communicator", world));
  if (context.communicator->world() != world || context.communicator->rank() != context.rank)
    return internalError(fmt::format("rank {} of {} with the communicator of rank {} of {}", context.rank, world,
                                     context.communicator->rank(), context.communicator->world()));
  return Status::ok();
}

} // namespace ztc
