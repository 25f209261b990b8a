// Launches on the host's cores, in the order of the stream of moves: a thread of the driver calls them when what was
// given to the stream before is done, and the stream goes on when they return.
#include "runtime/Device/cuda/CudaHostLaunch.h"
#include "runtime/Device/LowerMemory.h"
#include "runtime/Device/cuda/CudaStep.h"
#include <algorithm>

namespace ztc {

StatusOr<std::shared_ptr<HostCores>> HostCores::create(const plan::Plan &plan, uint32_t threads) {
  auto cores = std::make_shared<HostCores>(std::max<uint32_t>(1, threads));
  if (const Status loaded = cores->kernels.load(plan, {}); !loaded.isOk())
    return loaded.withContext("the plan updates on the host's cores (--offload-update=device does it on the GPU)");
  return cores;
}

namespace {

class CudaHostLaunch : public CudaStep {
public:
  explicit CudaHostLaunch(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Launch &launch = from.step.launch();
    lower_ = from.context.lower;
    cores_ = resources_.hostCores;
    if (!lower_ || !lower_->host() || !cores_)
      return failedPrecondition("the plan works on the host's memory: there is none for it");
    if (launch.accumulate() != plan::OVERWRITE)
      return dataLoss("a launch on the host's cores that adds to its results");
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {}));
    ZTC_ASSIGN_OR_RETURN(kernel_, cores_->kernels.find(launch.kernel()));
    ZTC_ASSIGN_OR_RETURN(range_, launchRange(launch, from.context));
    grain_ = std::max<uint64_t>(1, launch.grain());
    return Status::ok();
  }

  Status initialize(std::byte *) override { return CudaStep::initialize(lower_->host()); }

  Status execute(uint32_t) override {
    if (range_.extent == 0)
      return Status::ok();
    return driver().check(driver().cuLaunchHostFunc(stream_, run, this), "cuLaunchHostFunc");
  }

private:
  static void run(void *data) {
    auto &self = *static_cast<CudaHostLaunch *>(data);
    void *const *buffers = reinterpret_cast<void *const *>(self.operands_.addresses());
    self.cores_->pool.parallelFor(self.range_.extent, self.grain_, [&](uint32_t, uint64_t begin, uint64_t end) {
      self.kernel_(buffers, self.range_.scalars.data(), int64_t(begin), int64_t(end));
    });
  }

  LowerMemory *lower_ = nullptr;
  std::shared_ptr<HostCores> cores_;
  KernelFunction kernel_ = nullptr;
  LaunchRange range_;
  uint64_t grain_ = 1;
};

} // namespace

PreparedStep prepareCudaHostLaunch(const CudaPrepare &from) {
  auto step = std::make_unique<CudaHostLaunch>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
