// Steps that move bytes or only stand in the plan.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
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

/// to = from, rounded to a type of two bytes. Where both begin at the same byte, pieces of doubling length follow one
/// another: elements [n, 2n) are written to bytes [2n, 4n), from which everything has been read. Within a piece workers
/// do not meet.
class HostNarrow : public HostStep {
public:
  explicit HostNarrow(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Narrow &call = from.step.narrow();
    ZTC_RETURN_IF_ERROR(resolve(from, {2}));
    const std::optional<NarrowType> type = narrowDataType(call.to());
    if (!type || call.from() != plan::F32)
      return dataLoss(fmt::format("no rounding from {} to {}", dataTypeName(call.from()), dataTypeName(call.to())));
    type_ = *type;
    count_ = operandBytes(0) / sizeof(float);
    return requireElements(from, 1, {count_}, sizeof(uint16_t));
  }

  Status initialize(std::byte *arena) override {
    ZTC_RETURN_IF_ERROR(HostStep::initialize(arena));
    const std::byte *source = pointer<std::byte>(0), *target = pointer<std::byte>(1);
    if (source != target && source < target + count_ * sizeof(uint16_t) && target < source + count_ * sizeof(float))
      return dataLoss("what is rounded overlaps the result, but does not begin with it");
    return Status::ok();
  }

  Status execute(uint32_t) override {
    const float *from = pointer<float>(0);
    uint16_t *to = pointer<uint16_t>(1);
    if (pointer(0) != pointer(1)) {
      run(to, from, 0, count_);
      return Status::ok();
    }
    uint64_t done = std::min(count_, kSerial);
    narrow(to, from, done, type_);
    for (; done < count_; done = std::min(count_, 2 * done))
      run(to, from, done, std::min(count_, 2 * done));
    return Status::ok();
  }

private:
  /// Small enough to take no time, large enough that the doubling has few pieces.
  static constexpr uint64_t kSerial = 16 << 10, kGrain = 8 << 10;

  /// Elements [begin, end).
  void run(uint16_t *to, const float *from, uint64_t begin, uint64_t end) {
    resources_.pool.parallelFor(end - begin, kGrain, [&](uint32_t, uint64_t first, uint64_t last) {
      narrow(to + begin + first, from + begin + first, last - first, type_);
    });
  }

  NarrowType type_ = NarrowType::Bf16;
  uint64_t count_ = 0;
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

PreparedStep prepareHostNarrow(const HostPrepare &from) {
  auto step = std::make_unique<HostNarrow>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

PreparedStep prepareHostNothing() {
  return PreparedStep(std::make_unique<HostNothing>());
}

PreparedStep prepareHostTransfer(const HostPrepare &) {
  return prepareHostNothing();
}

} // namespace ztc
