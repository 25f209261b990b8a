// What the host's steps share, and the list of them. One kind of step is one file, Host*.cpp.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/host/HostStreams.h"
#include "runtime/Device/host/KernelLibrary.h"
#include "runtime/Device/host/Matmul.h"
#include "runtime/Device/host/ThreadPool.h"
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace ztc {

/// The parts of the host device that steps use; they live as long as the device.
struct HostResources {
  ThreadPool pool;
  HostStreams streams;
  KernelLibrary kernels;
  /// Made by the first step that multiplies matrices.
  std::unique_ptr<MatmulCache> matmuls;
  std::string oneDnnLibrary;

  explicit HostResources(uint32_t threads) : pool(threads) {}
  StatusOr<MatmulCache *> matmulCache();
};

/// What a step kind's prepare function gets.
struct HostPrepare {
  const plan::Step &step;
  const PrepareContext &context;
  HostResources &resources;
};

/// The operands of a step in the arena.
class HostStep : public DeviceStep {
public:
  Status initialize(std::byte *arena) override {
    for (size_t i = 0; i < operands_.size(); ++i)
      pointers_[i] = arena + operands_[i].offset;
    return Status::ok();
  }

protected:
  explicit HostStep(HostResources &resources) : resources_(resources) {}
  /// Finds the operands. Fails where their number is not one of `counts` or one leaves its slot.
  Status resolve(const HostPrepare &from, std::initializer_list<int> counts);
  /// Fails unless operand `index` holds at least `bytes`.
  Status require(const HostPrepare &from, size_t index, uint64_t bytes) const;
  /// Fails unless operand `index` holds `count` elements; false sizes of a damaged plan must not become wild writes.
  Status requireElements(const HostPrepare &from, size_t index, std::initializer_list<uint64_t> sizes,
                         uint64_t elementBytes = 4) const;

  size_t operandCount() const { return operands_.size(); }
  uint64_t operandBytes(size_t index) const { return operands_[index].bytes; }
  template <typename T = void> T *pointer(size_t index) const { return reinterpret_cast<T *>(pointers_[index]); }
  void *const *pointers() const { return reinterpret_cast<void *const *>(pointers_.data()); }

  HostResources &resources_;

private:
  struct Place {
    uint64_t offset; ///< in the arena
    uint64_t bytes;
  };
  std::vector<Place> operands_;
  std::vector<std::byte *> pointers_;
};

/// Whether a result is added to its operand in this micro-step.
inline bool addsNow(plan::Accumulate accumulate, uint32_t microstep) {
  return accumulate == plan::ADD || (accumulate == plan::ADD_UNLESS_FIRST && microstep > 0);
}

using PreparedStep = StatusOr<std::unique_ptr<DeviceStep>>;
PreparedStep prepareHostLaunch(const HostPrepare &from);
PreparedStep prepareHostGemm(const HostPrepare &from);
PreparedStep prepareHostAttention(const HostPrepare &from);
PreparedStep prepareHostLinearCrossEntropy(const HostPrepare &from);
PreparedStep prepareHostGather(const HostPrepare &from);
PreparedStep prepareHostScatterAdd(const HostPrepare &from);
PreparedStep prepareHostCopy(const HostPrepare &from);
PreparedStep prepareHostFill(const HostPrepare &from);
PreparedStep prepareHostNarrow(const HostPrepare &from);
PreparedStep prepareHostCollective(const HostPrepare &from);
PreparedStep prepareHostEvent(const HostPrepare &from);
/// Planned-only transfers, and whatever happens by itself.
PreparedStep prepareHostNothing(const HostPrepare &from);

} // namespace ztc
