// Generated kernels over the thread pool.
#include "runtime/Format/HostLaunch.h"
#include "runtime/Device/LowerMemory.h"
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
    if (!computesOnHost(from.step))
      return Status::ok();
    lower_ = from.context.lower;
    return lower_ && lower_->host() ? Status::ok()
                                    : failedPrecondition("the plan works on the host's memory: there is none for it");
  }

  Status initialize(std::byte *arena) override { return HostStep::initialize(lower_ ? lower_->host() : arena); }

  /// What is on the stream of moves is run here and now, after what that stream was given before: the cores are the
  /// same, and the pool has one caller.
  Status execute(uint32_t microstep) override {
    const uint64_t before = lower_ ? traceClock() : 0;
    if (lower_) {
      ZTC_RETURN_IF_ERROR(resources_.moves.drain());
      lower_->counters().waited.fetch_add(traceClock() - before, std::memory_order_relaxed);
    }
    KernelFunction kernel = addsNow(accumulate_, microstep) ? add_ : overwrite_;
    resources_.pool.parallelFor(range_.extent, grain_, [&](uint32_t, uint64_t begin, uint64_t end) {
      kernel(pointers(), range_.scalars.data(), int64_t(begin), int64_t(end));
    });
    if (lower_)
      nanoseconds_ += traceClock() - before;
    return Status::ok();
  }
  uint64_t queuedNanoseconds() const override { return nanoseconds_; }

private:
  KernelFunction overwrite_ = nullptr;
  KernelFunction add_ = nullptr;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
  LaunchRange range_;
  uint64_t grain_ = 1;
  LowerMemory *lower_ = nullptr; ///< where it works on that
  uint64_t nanoseconds_ = 0;     ///< there
};

} // namespace

PreparedStep prepareHostLaunch(const HostPrepare &from) {
  auto step = std::make_unique<HostLaunch>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
