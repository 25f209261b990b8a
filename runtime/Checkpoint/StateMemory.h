// How checkpoint code reaches a run's parameters and moments, and which of them are this rank's.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Ranks/ControlChannel.h"
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace ztc {

/// The slots of one rank. An implementation may sit on any device; calls come from one thread.
class StateMemory {
public:
  virtual ~StateMemory() = default;
  /// Copies `bytes` from a slot, beginning `offset` bytes into it, to ordinary memory.
  virtual Status read(uint32_t slot, uint64_t offset, void *to, uint64_t bytes) = 0;
  virtual Status write(uint32_t slot, uint64_t offset, const void *from, uint64_t bytes) = 0;
};

/// Slots in ordinary memory, by base address; null where a slot is not there.
class HostStateMemory : public StateMemory {
public:
  explicit HostStateMemory(std::vector<std::byte *> bases) : bases_(std::move(bases)) {}
  Status read(uint32_t slot, uint64_t offset, void *to, uint64_t bytes) override {
    ZTC_RETURN_IF_ERROR(check(slot));
    std::memcpy(to, bases_[slot] + offset, bytes);
    return Status::ok();
  }
  Status write(uint32_t slot, uint64_t offset, const void *from, uint64_t bytes) override {
    ZTC_RETURN_IF_ERROR(check(slot));
    std::memcpy(bases_[slot] + offset, from, bytes);
    return Status::ok();
  }

private:
  Status check(uint32_t slot) const {
    if (slot >= bases_.size() || !bases_[slot])
      return internalError("slot " + std::to_string(slot) + " has no memory");
    return Status::ok();
  }
  std::vector<std::byte *> bases_;
};

/// What every operation here works on. `staging` is the caller's fixed buffer (the plan's staging slot or part of it):
/// at least kMinimumStagingBytes; nothing else of size is allocated.
///
/// With several ranks every rank calls the same operation with the same arguments and gets the same outcome: what fails
/// on one rank fails on all, with its message.
struct StateContext {
  const plan::Plan &plan;
  StateMemory &memory;
  std::span<std::byte> staging;
  ControlChannel *control = nullptr; ///< null: one rank

  uint32_t rank() const { return control ? control->rank() : 0; }
  uint32_t world() const { return control ? control->world() : 1; }
  /// For the watchdog: bytes were read or written.
  void addProgress(uint64_t bytes) const {
    if (control)
      control->progress().addBytes(bytes);
  }
};
inline constexpr uint64_t kMinimumStagingBytes = 4096;

/// Elements [begin, end) of a bucket; empty where begin == end.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const ElementRange &) const = default;
};

/// What rank `rank` of `world` owns of a bucket: its shard, without padding. The ranges of all ranks are the bucket.
ElementRange ownedRange(const plan::Bucket &bucket, uint32_t rank, uint32_t world);

/// What this rank's slot holds of its bucket: the owned range where the slot is a shard, else everything. Element
/// `range.begin` is the slot's first one.
ElementRange heldRange(const plan::Plan &plan, const plan::Bucket &bucket, uint32_t slot, uint32_t rank,
                       uint32_t world);

} // namespace ztc
