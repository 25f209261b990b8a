// Steps that move bytes, that order streams, or that only stand in the plan.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
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

/// to = from, rounded to a type of two bytes. Where both begin at the same byte, launches over pieces of doubling
/// length follow one another: elements [n, 2n) are written to bytes [2n, 4n), from which everything has been read. The
/// first piece is one block, which loads before it stores.
class CudaNarrow : public CudaStep {
public:
  explicit CudaNarrow(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Narrow &call = from.step.narrow();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {2}));
    if (!narrowDataType(call.to()) || call.from() != plan::F32)
      return dataLoss(fmt::format("no rounding from {} to {}", dataTypeName(call.from()), dataTypeName(call.to())));
    const uint64_t count = operands_.bytes(0) / sizeof(float);
    ZTC_RETURN_IF_ERROR(operands_.requireElements(1, {count}, sizeof(uint16_t)));
    ZTC_RETURN_IF_ERROR(requireAligned());
    if (count % kUnit != 0)
      return dataLoss(fmt::format("{} elements are rounded, which is not a multiple of {}", count, kUnit));
    units_ = count / kUnit;
    inPlace_ = operands_.offset(0) == operands_.offset(1);
    if (!inPlace_ && operands_.offset(0) < operands_.offset(1) + count * sizeof(uint16_t) &&
        operands_.offset(1) < operands_.offset(0) + count * sizeof(float))
      return dataLoss("what is rounded overlaps the result, but does not begin with it");
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(call.gpu_kernels(), 1));
    kernel_ = kernels[0];
    return Status::ok();
  }

  Status execute(uint32_t) override {
    if (!inPlace_)
      return run(0, units_);
    uint64_t done = std::min<uint64_t>(units_, kernel_.unitsPerBlock);
    ZTC_RETURN_IF_ERROR(run(0, done));
    for (; done < units_; done = std::min(units_, 2 * done))
      ZTC_RETURN_IF_ERROR(run(done, std::min(units_, 2 * done)));
    return Status::ok();
  }

private:
  /// Elements that the kernel takes as one.
  static constexpr uint64_t kUnit = 8;

  Status run(uint64_t begin, uint64_t end) const {
    return launch(kernel_, {address(0) + begin * kUnit * sizeof(float), address(1) + begin * kUnit * sizeof(uint16_t)},
                  end - begin);
  }

  CudaKernel kernel_;
  uint64_t units_ = 0;
  bool inPlace_ = false;
};

/// Marks what a stream has been given so far, or holds it back until that is done.
class CudaEvent : public DeviceStep {
public:
  CudaEvent(const CudaPrepare &from, uint32_t number)
      : resources_(from.resources), stream_(from.stream()), number_(number), isWait_(from.step.has_wait()) {}
  Status initialize(std::byte *) override { return Status::ok(); }
  Status execute(uint32_t) override {
    const CudaDriver &driver = resources_.driver;
    const cuda::Event event = resources_.events[number_];
    uint64_t &recordedIn = resources_.eventPrograms[number_];
    if (!isWait_) {
      recordedIn = resources_.program;
      return driver.check(driver.cuEventRecord(event, stream_), "cuEventRecord");
    }
    // What was recorded in an earlier execution has happened: the streams met since. A graph may not wait for it.
    if (recordedIn != resources_.program)
      return Status::ok();
    return driver.check(driver.cuStreamWaitEvent(stream_, event, 0), "cuStreamWaitEvent");
  }

private:
  CudaResources &resources_;
  const cuda::Stream stream_;
  const uint32_t number_;
  const bool isWait_;
};

class CudaNothing : public DeviceStep {
public:
  Status initialize(std::byte *) override { return Status::ok(); }
  Status execute(uint32_t) override { return Status::ok(); }
};

PreparedStep prepareEvent(const CudaPrepare &from, uint32_t number) {
  if (number >= 1u << 20)
    return dataLoss(fmt::format("event {} is out of any range", number));
  std::vector<cuda::Event> &events = from.resources.events;
  if (events.size() <= number) {
    events.resize(size_t(number) + 1);
    from.resources.eventPrograms.resize(size_t(number) + 1);
  }
  const CudaDriver &driver = from.resources.driver;
  if (!events[number])
    ZTC_RETURN_IF_ERROR(
        driver.check(driver.cuEventCreate(&events[number], cuda::kEventDisableTiming), "cuEventCreate"));
  return PreparedStep(std::make_unique<CudaEvent>(from, number));
}

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

PreparedStep prepareCudaNarrow(const CudaPrepare &from) {
  auto step = std::make_unique<CudaNarrow>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

PreparedStep prepareCudaRecord(const CudaPrepare &from) {
  return prepareEvent(from, from.step.record().event());
}

PreparedStep prepareCudaWait(const CudaPrepare &from) {
  return prepareEvent(from, from.step.wait().event());
}

PreparedStep prepareCudaTransfer(const CudaPrepare &) {
  return PreparedStep(std::make_unique<CudaNothing>());
}

} // namespace ztc
