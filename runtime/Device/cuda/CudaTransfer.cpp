// Steps that move bytes, that order streams, or that only stand in the plan.
#include "runtime/Device/cuda/CudaStep.h"
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaCopy : public CudaStep {
public:
  explicit CudaCopy(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {2}));
    bytes_ = from.step.copy().bytes() ? from.step.copy().bytes() : operands_.bytes(0);
    ZTC_RETURN_IF_ERROR(operands_.require(0, bytes_));
    return operands_.require(1, bytes_);
  }

  Status execute(uint32_t) override {
    if (address(0) == address(1))
      return Status::ok();
    return driver().check(driver().cuMemcpyDtoDAsync_v2(address(1), address(0), bytes_, stream_), "cuMemcpyDtoDAsync");
  }

private:
  uint64_t bytes_ = 0;
};

class CudaFill : public CudaStep {
public:
  explicit CudaFill(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    value_ = static_cast<unsigned char>(from.step.fill().value() & 0xff);
    return operands_.resolve(from.step, from.context, {1});
  }

  Status execute(uint32_t) override {
    return driver().check(driver().cuMemsetD8Async(address(0), value_, operands_.bytes(0), stream_), "cuMemsetD8Async");
  }

private:
  unsigned char value_ = 0;
};

/// Marks what a stream has been given so far, or holds it back until that is done. A wait for what was never recorded
/// waits for nothing.
class CudaEvent : public DeviceStep {
public:
  CudaEvent(const CudaPrepare &from, cuda::Event event)
      : driver_(from.resources.driver), stream_(from.stream()), event_(event), isWait_(from.step.has_wait()) {}
  Status initialize(std::byte *) override { return Status::ok(); }
  Status execute(uint32_t) override {
    return isWait_ ? driver_.check(driver_.cuStreamWaitEvent(stream_, event_, 0), "cuStreamWaitEvent")
                   : driver_.check(driver_.cuEventRecord(event_, stream_), "cuEventRecord");
  }

private:
  const CudaDriver &driver_;
  const cuda::Stream stream_;
  const cuda::Event event_;
  const bool isWait_;
};

class CudaNothing : public DeviceStep {
public:
  Status initialize(std::byte *) override { return Status::ok(); }
  Status execute(uint32_t) override { return Status::ok(); }
};

} // namespace

PreparedStep prepareCudaCopy(const CudaPrepare &from) {
  auto step = std::make_unique<CudaCopy>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

PreparedStep prepareCudaFill(const CudaPrepare &from) {
  auto step = std::make_unique<CudaFill>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

PreparedStep prepareCudaEvent(const CudaPrepare &from) {
  const uint32_t number = from.step.has_record() ? from.step.record().event() : from.step.wait().event();
  if (number >= 1u << 20)
    return dataLoss(fmt::format("event {} is out of any range", number));
  std::vector<cuda::Event> &events = from.resources.events;
  if (events.size() <= number)
    events.resize(size_t(number) + 1);
  const CudaDriver &driver = from.resources.driver;
  if (!events[number])
    ZTC_RETURN_IF_ERROR(
        driver.check(driver.cuEventCreate(&events[number], cuda::kEventDisableTiming), "cuEventCreate"));
  return PreparedStep(std::make_unique<CudaEvent>(from, events[number]));
}

PreparedStep prepareCudaNothing(const CudaPrepare &) {
  return PreparedStep(std::make_unique<CudaNothing>());
}

} // namespace ztc
