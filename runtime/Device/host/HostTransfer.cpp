// Steps that move bytes or only stand in the plan.
#include "runtime/Device/host/HostStep.h"
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

/// Less than this is not worth a second thread.
constexpr uint64_t kCopyGrain = 64 << 10;

class HostCopy : public HostStep {
public:
  explicit HostCopy(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from, uint64_t bytes) {
    ZTC_RETURN_IF_ERROR(resolve(from, {2}));
    bytes_ = bytes ? bytes : operandBytes(0);
    ZTC_RETURN_IF_ERROR(require(from, 0, bytes_));
    return require(from, 1, bytes_);
  }

  Status execute(uint32_t) override {
    const std::byte *source = pointer<std::byte>(0);
    std::byte *target = pointer<std::byte>(1);
    if (source == target)
      return Status::ok();
    resources_.pool.parallelFor(bytes_, kCopyGrain, [&](uint32_t, uint64_t begin, uint64_t end) {
      std::memcpy(target + begin, source + begin, end - begin);
    });
    return Status::ok();
  }

private:
  uint64_t bytes_ = 0;
};

class HostFill : public HostStep {
public:
  explicit HostFill(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    ZTC_RETURN_IF_ERROR(resolve(from, {1}));
    value_ = int(from.step.fill().value() & 0xff);
    return Status::ok();
  }

  Status execute(uint32_t) override {
    resources_.pool.parallelFor(operandBytes(0), kCopyGrain, [&](uint32_t, uint64_t begin, uint64_t end) {
      std::memset(pointer<std::byte>(0) + begin, value_, end - begin);
    });
    return Status::ok();
  }

private:
  int value_ = 0;
};

class HostNothing : public DeviceStep {
public:
  Status initialize(std::byte *) override { return Status::ok(); }
  Status execute(uint32_t) override { return Status::ok(); }
};

} // namespace

PreparedStep prepareHostCopy(const HostPrepare &from) {
  auto step = std::make_unique<HostCopy>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from, from.step.copy().bytes()));
  return PreparedStep(std::move(step));
}

PreparedStep prepareHostFill(const HostPrepare &from) {
  auto step = std::make_unique<HostFill>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

PreparedStep prepareHostNothing(const HostPrepare &) {
  return PreparedStep(std::make_unique<HostNothing>());
}

} // namespace ztc
