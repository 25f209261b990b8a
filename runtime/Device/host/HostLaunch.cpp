// Generated kernels over the thread pool.
#include "runtime/Device/host/HostStep.h"
#include <algorithm>

namespace ztc {
namespace {

class HostLaunch : public HostStep {
public:
  explicit HostLaunch(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Launch &launch = from.step.launch();
    ZTC_RETURN_IF_ERROR(resolve(from, {}));
    ZTC_ASSIGN_OR_RETURN(overwrite_, resources_.kernels.find(launch.kernel()));
    accumulate_ = launch.accumulate();
    if (accumulate_ != plan::OVERWRITE) {
      ZTC_ASSIGN_OR_RETURN(add_, resources_.kernels.find(launch.kernel_add()));
    }
    grain_ = std::max<uint64_t>(1, launch.grain());
    ZTC_ASSIGN_OR_RETURN(range_, launchRange(launch, from.context));
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    KernelFunction kernel = addsNow(accumulate_, microstep) ? add_ : overwrite_;
    resources_.pool.parallelFor(range_.extent, grain_, [&](uint32_t, uint64_t begin, uint64_t end) {
      kernel(pointers(), range_.scalars.data(), int64_t(begin), int64_t(end));
    });
    return Status::ok();
  }

private:
  KernelFunction overwrite_ = nullptr;
  KernelFunction add_ = nullptr;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
  LaunchRange range_;
  uint64_t grain_ = 1;
};

} // namespace

PreparedStep prepareHostLaunch(const HostPrepare &from) {
  auto step = std::make_unique<HostLaunch>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
