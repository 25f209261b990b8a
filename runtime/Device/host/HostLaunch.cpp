// Generated kernels over the thread pool.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>

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
    if (!launch.flat()) {
      extent_ = launch.extent();
      scalars_.assign(launch.scalars().begin(), launch.scalars().end());
      return Status::ok();
    }
    if (launch.bucket() >= uint32_t(from.context.plan.buckets_size()) || launch.flat_block() == 0)
      return dataLoss("a flat launch needs a bucket and a block size");
    // The rank's shard without the padding at the bucket's end, which may hold anything.
    uint64_t elements = from.context.plan.buckets(int(launch.bucket())).elements();
    uint64_t quantum = uint64_t(from.context.shape.world) * kShardQuantum;
    uint64_t shardElements = (elements + quantum - 1) / quantum * kShardQuantum;
    uint64_t start = std::min(elements, shardElements * from.context.rank);
    uint64_t length = std::min(shardElements, elements - start);
    scalars_ = {int64_t(length), int64_t(start)};
    extent_ = (length + launch.flat_block() - 1) / launch.flat_block();
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    KernelFunction kernel = addsNow(accumulate_, microstep) ? add_ : overwrite_;
    resources_.pool.parallelFor(extent_, grain_, [&](uint32_t, uint64_t begin, uint64_t end) {
      kernel(pointers(), scalars_.data(), int64_t(begin), int64_t(end));
    });
    return Status::ok();
  }

private:
  KernelFunction overwrite_ = nullptr;
  KernelFunction add_ = nullptr;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
  uint64_t extent_ = 0;
  uint64_t grain_ = 1;
  std::vector<int64_t> scalars_;
};

} // namespace

PreparedStep prepareHostLaunch(const HostPrepare &from) {
  auto step = std::make_unique<HostLaunch>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
