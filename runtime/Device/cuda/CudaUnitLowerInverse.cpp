// The inverse of each matrix with ones on the diagonal and zeros above it: a block for each.
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {
namespace {

class CudaUnitLowerInverse : public CudaStep {
public:
  explicit CudaUnitLowerInverse(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::UnitLowerInverse &inverse = from.step.unit_lower_inverse();
    count_ = inverse.count();
    size_ = inverse.size();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {2}));
    for (size_t operand : {0, 1})
      ZTC_RETURN_IF_ERROR(operands_.requireElements(operand, {count_, size_, size_}));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(inverse.gpu_kernels(), 1));
    kernel_ = kernels[0];
    return Status::ok();
  }

  Status execute(uint32_t) override { return launch(kernel_, {address(0), address(1), size_}, count_); }

private:
  CudaKernel kernel_;
  uint64_t count_ = 0, size_ = 0;
};

} // namespace

PreparedStep prepareCudaUnitLowerInverse(const CudaPrepare &from) {
  auto step = std::make_unique<CudaUnitLowerInverse>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
