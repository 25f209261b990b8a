// What the host's steps share, and the list of them. One kind of step is one file, Host*.cpp.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/StepOperands.h"
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
  HostStreams moves{"stream 2: moves"};
  std::vector<uint8_t> eventStreams; ///< by event: the stream that records it
  KernelLibrary kernels;
  MatmulCache matmuls;

  explicit HostResources(uint32_t threads) : pool(threads), matmuls(threads) {}
};

/// What a step kind's prepare function gets.
struct HostPrepare {
  const plan::Step &step;
  const PrepareContext &context;
  HostResources &resources;
};

/// A step over operands in the arena.
class HostStep : public DeviceStep {
public:
  Status initialize(std::byte *arena) override {
    operands_.place(arena);
    return Status::ok();
  }

protected:
  explicit HostStep(HostResources &resources) : resources_(resources) {}
  // See StepOperands.
  Status resolve(const HostPrepare &from, std::initializer_list<int> counts) {
    return operands_.resolve(from.step, from.context, counts);
  }
  Status require(const HostPrepare &, size_t index, CheckedBytes bytes) const {
    return operands_.require(index, bytes);
  }
  Status requireElements(const HostPrepare &, size_t index, std::initializer_list<uint64_t> sizes,
                         uint64_t elementBytes = 4) const {
    return operands_.requireElements(index, sizes, elementBytes);
  }

  size_t operandCount() const { return operands_.count(); }
  uint64_t operandBytes(size_t index) const { return operands_.bytes(index); }
  /// In the arena of its space.
  uint64_t operandOffset(size_t index) const { return operands_.offset(index); }
  template <typename T = void> T *pointer(size_t index) const {
    return reinterpret_cast<T *>(operands_.address(index));
  }
  void *const *pointers() const { return reinterpret_cast<void *const *>(operands_.addresses()); }

  HostResources &resources_;

private:
  StepOperands operands_;
};

using PreparedStep = StatusOr<std::unique_ptr<DeviceStep>>;
// One function for each kind of step: prepareHostGemm and so on.
#define ZTC_STEP(name) PreparedStep prepareHost##name(const HostPrepare &from);
#include "runtime/Format/Steps/StepKinds.def"
/// A step that does nothing: whatever happens by itself.
PreparedStep prepareHostNothing();

} // namespace ztc
