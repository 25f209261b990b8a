// How checkpoint code reaches a run's parameters and moments.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/plan.pb.h"
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
struct StateContext {
  const plan::Plan &plan;
  StateMemory &memory;
  std::span<std::byte> staging;
};
inline constexpr uint64_t kMinimumStagingBytes = 4096;

} // namespace ztc
