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
    // Without the padding at the bucket's end, which may hold anything.
    uint64_t elements = from.context.plan.buckets(int(launch.bucket())).elements();
    ShardRange range = launch.flat_range() == plan::Launch::WHOLE
                           ? ShardRange{0, elements}
                           : shardRange(elements, from.context.shape.world, from.context.rank);
    scalars_ = {int64_t(range.length), int64_t(range.start)};
    // A stated extent holds for an empty shard too: the sum over none of its blocks is zero, and somebody must write
    // it.
    extent_ = launch.extent() ? launch.extent() : (range.length + launch.flat_block() - 1) / launch.flat_block();
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
