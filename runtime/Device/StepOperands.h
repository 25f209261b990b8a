// What steps of every device find out about a plan's step: where its operands lie, how far its range goes.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Format/Steps/StepCheck.h"
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace ztc {

/// The operands of a step in the arena; those of a move also in others, where they have no address. Sizes are checked
/// again here, though the plan has been validated: false ones must not become wild writes.
class StepOperands {
public:
  /// Finds the operands. Fails where their number is not one of `counts` (empty: any) or one leaves its slot.
  Status resolve(const plan::Step &step, const PrepareContext &context, std::initializer_list<int> counts);
  /// Fails unless operand `index` holds at least `bytes`, which did not overflow.
  Status require(size_t index, CheckedBytes bytes) const;
  /// Fails unless operand `index` holds as many elements as the product of `sizes`.
  Status requireElements(size_t index, std::initializer_list<uint64_t> sizes, uint64_t elementBytes = 4) const;

  /// The arena's address is known.
  void place(std::byte *arena) {
    for (size_t i = 0; i < places_.size(); ++i)
      addresses_[i] = arena + places_[i].offset;
  }

  size_t count() const { return places_.size(); }
  uint64_t bytes(size_t index) const { return places_[index].bytes; }
  /// In the arena of its space, in bytes.
  uint64_t offset(size_t index) const { return places_[index].offset; }
  std::byte *address(size_t index) const { return addresses_[index]; }
  std::byte *const *addresses() const { return addresses_.data(); }

private:
  Status resolvePiece(const plan::Operand &operand, const PrepareContext &context);
  struct Place {
    uint64_t offset; ///< in the arena
    uint64_t bytes;
  };
  std::vector<Place> places_;
  std::vector<std::byte *> addresses_;
};

/// Over what a generated kernel runs.
struct LaunchRange {
  uint64_t extent = 0;
  std::vector<int64_t> scalars; ///< flat: {length, global start}
};
StatusOr<LaunchRange> launchRange(const plan::Launch &launch, const PrepareContext &context);

/// Elements of a rank's shard of the bucket that a collective moves. Fails where there is no such bucket or type.
StatusOr<uint64_t> shardOfCollective(const plan::Collective &collective, const PrepareContext &context);
/// Fails unless several ranks have a communicator between just them.
Status checkCommunicator(const PrepareContext &context);

/// What a rank has of a range of a bucket: elements of its shard, none where `count` is 0.
struct ShardPart {
  size_t operand;
  uint64_t begin, count;
};
/// Of `ranges`, as plan::ShardFp8 has them, of shards that are operands from `firstOperand` on.
StatusOr<std::vector<ShardPart>> shardParts(const plan::Step &step,
                                            const google::protobuf::RepeatedField<int64_t> &ranges, size_t firstOperand,
                                            const PrepareContext &context);

/// Whether a result is added to its operand in this micro-step.
inline bool addsNow(plan::Accumulate accumulate, uint32_t microstep) {
  return accumulate == plan::ADD || (accumulate == plan::ADD_UNLESS_FIRST && microstep > 0);
}

} // namespace ztc
