#include "runtime/Device/cuda/CudaLinks.h"
#include "runtime/Device/cuda/CudaDevice.h"
#include "runtime/Device/cuda/CudaPinnedSpace.h"
#include "runtime/Device/cuda/CudaTimer.h"
#include <algorithm>

namespace ztc {
namespace {

/// A stream and memory of the device, released at the end.
class LinkMeasurement {
public:
  explicit LinkMeasurement(const CudaDriver &driver) : driver_(driver) {}
  ~LinkMeasurement() {
    if (stream_)
      driver_.cuStreamSynchronize(stream_);
    if (memory_)
      driver_.cuMemFree_v2(memory_);
    if (stream_)
      driver_.cuStreamDestroy_v2(stream_);
  }
  LinkMeasurement(const LinkMeasurement &) = delete;
  LinkMeasurement &operator=(const LinkMeasurement &) = delete;

  StatusOr<CudaLinkRates> measure(uint64_t bytes) {
    ZTC_RETURN_IF_ERROR(
        driver_.check(driver_.cuStreamCreateWithPriority(&stream_, cuda::kStreamNonBlocking, 0), "cuStreamCreate"));
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemAlloc_v2(&memory_, bytes), "cuMemAlloc"));
    ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<Arena> pinned,
                         allocatePinnedSpace(driver_, bytes, [this] { driver_.cuStreamSynchronize(stream_); }));
    CudaStopwatch watch(driver_, stream_);
    ZTC_RETURN_IF_ERROR(watch.create());
    CudaLinkRates rates;
    for (int round = 0; round < kRounds; ++round)
      for (bool isIn : {true, false}) {
        ZTC_ASSIGN_OR_RETURN(const double seconds, watch.seconds([&] {
          return isIn ? driver_.check(driver_.cuMemcpyHtoDAsync_v2(memory_, pinned->base(), bytes, stream_),
                                      "cuMemcpyHtoDAsync")
                      : driver_.check(driver_.cuMemcpyDtoHAsync_v2(pinned->base(), memory_, bytes, stream_),
                                      "cuMemcpyDtoHAsync");
        }));
        double &best = isIn ? rates.inBytesPerSecond : rates.outBytesPerSecond;
        best = std::max(best, double(bytes) / std::max(seconds, 1e-9));
      }
    return rates;
  }

private:
  static constexpr int kRounds = 10;
  const CudaDriver &driver_;
  cuda::Stream stream_ = nullptr;
  cuda::Address memory_ = 0;
};

} // namespace

StatusOr<CudaLinkRates> measureCudaLink(const CudaLibraryPaths &libraries) {
  ZTC_ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, findGpus(libraries));
  ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, createCudaDevice({.libraries = libraries}));
  ZTC_ASSIGN_OR_RETURN(const CudaDriver *driver, CudaDriver::load(libraries));
  LinkMeasurement measurement(*driver);
  ZTC_ASSIGN_OR_RETURN(CudaLinkRates rates,
                       measurement.measure(gpus.front().isEmulated() ? 1 << 20 : uint64_t(64) << 20));
  rates.gpu = gpus.front().name;
  return rates;
}

} // namespace ztc
