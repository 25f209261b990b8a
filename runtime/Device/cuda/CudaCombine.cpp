// Of each token the sum of its choices' rows: one kernel.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/PlanValidator.h"
#include <numeric>

namespace ztc {
namespace {

class CudaCombine : public CudaStep {
public:
  explicit CudaCombine(const CudaPrepare &from)
      : CudaStep(from), fault_(from.resources, rowsOf(from.step.combine()), TokenFault::Kind::Place) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Combine &combine = from.step.combine();
    const uint64_t elementBytes = dataTypeBytes(combine.type());
    tokens_ = combine.rows();
    choices_ = combine.choices();
    rows_ = rowsOf(combine);
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {3}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {rows_, combine.width()}, elementBytes));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(1, {tokens_, choices_}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(2, {tokens_, combine.width()}, elementBytes));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(combine.gpu_kernels(), 1));
    kernel_ = kernels[0];
    pieces_ = combine.width() / std::gcd(combine.width(), kGpuVectorBytes / elementBytes);
    return fault_.create();
  }

  Status execute(uint32_t) override {
    return launch(kernel_, {address(0), address(1), address(2), fault_.address(), pieces_, choices_, rows_}, tokens_);
  }

private:
  static uint64_t rowsOf(const plan::Combine &combine) { return combine.rows() * combine.choices(); }

  TokenFault fault_;
  CudaKernel kernel_;
  uint64_t tokens_ = 0, choices_ = 0, rows_ = 0, pieces_ = 0;
};

} // namespace

PreparedStep prepareCudaCombine(const CudaPrepare &from) {
  auto step = std::make_unique<CudaCombine>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
