// The order of choices by expert: three kernels, which have all their memory in the results.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/ExpertKernels.h"
#include <bit>
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaRoute : public CudaStep {
public:
  explicit CudaRoute(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Route &route = from.step.route();
    choices_ = route.tokens() * route.choices();
    experts_ = route.experts();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {4}));
    for (size_t operand : {0, 1, 2})
      ZTC_RETURN_IF_ERROR(operands_.requireElements(operand, {route.tokens(), route.choices()}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(3, {experts_ + 1}));
    if (!experts_ || experts_ > kMaxGpuExperts)
      return dataLoss(
          fmt::format("choices of {} experts, the most that a GPU routes to are {}", experts_, kMaxGpuExperts));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(kernels_, gpuKernels(route.gpu_kernels(), 3));
    return Status::ok();
  }

  // What the first kernel counts lies where the order will be. Nobody needs it where one block sees all choices.
  Status execute(uint32_t) override {
    const uint64_t blocks = (choices_ + kGpuRouteChoices - 1) / kGpuRouteChoices;
    const auto bits = uint64_t(std::bit_width(experts_ - 1));
    if (blocks > 1)
      ZTC_RETURN_IF_ERROR(launch(kernels_[0], {address(0), address(1), choices_, experts_, bits}, blocks));
    ZTC_RETURN_IF_ERROR(
        launch(kernels_[1], {address(0), address(1), address(2), address(3), choices_, experts_, bits}, blocks));
    return launch(kernels_[2], {address(2), address(1)}, choices_);
  }

private:
  std::vector<CudaKernel> kernels_;
  uint64_t choices_ = 0, experts_ = 0;
};

} // namespace

PreparedStep prepareCudaRoute(const CudaPrepare &from) {
  auto step = std::make_unique<CudaRoute>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
