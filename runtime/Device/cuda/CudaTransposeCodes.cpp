// The transposed matrix of fp8 codes: one kernel, which writes whole vectors.
#include "runtime/Core/Fp8.h"
#include "runtime/Device/cuda/CudaStep.h"
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaTransposeCodes : public CudaStep {
public:
  explicit CudaTransposeCodes(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::TransposeCodes &call = from.step.transpose_codes();
    rows_ = call.rows();
    columns_ = call.columns();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {2}));
    if (!rows_ || !columns_ || rows_ % kFp8Tile || columns_ % kFp8Tile)
      return dataLoss(fmt::format("no transposed codes of {} x {} elements", rows_, columns_));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {rows_, columns_}, 1));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(1, {rows_, columns_}, 1));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(call.gpu_kernels(), 1));
    kernel_ = kernels[0];
    return Status::ok();
  }

  Status execute(uint32_t) override {
    return launch(kernel_, {address(0), address(1), rows_, columns_}, rows_ / kFp8Tile * columns_);
  }

private:
  CudaKernel kernel_;
  uint64_t rows_ = 0, columns_ = 0;
};

} // namespace

PreparedStep prepareCudaTransposeCodes(const CudaPrepare &from) {
  auto step = std::make_unique<CudaTransposeCodes>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
