// The transposed matrix of fp8 codes: one kernel, by way of shared memory.
#include "runtime/Core/Fp8.h"
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
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
    const bool isNoting = call.maxima() != plan::DATA_TYPE_UNSPECIFIED;
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {isNoting ? 4 : 2}));
    if (!rows_ || !columns_ || rows_ % kFp8Tile || columns_ % kFp8Tile)
      return dataLoss(fmt::format("no transposed codes of {} x {} elements", rows_, columns_));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {rows_, columns_}, 1));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(1, {rows_, columns_}, 1));
    if (isNoting) {
      ZTC_RETURN_IF_ERROR(operands_.requireElements(3, {1}, sizeof(float)));
      maxima_ = operands_.bytes(2) / std::max<uint64_t>(dataTypeBytes(call.maxima()), 1);
      accumulate_ = call.accumulate();
    }
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(call.gpu_kernels(), 1));
    kernel_ = kernels[0];
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    if (maxima_)
      return launch(kernel_,
                    {address(0), address(1), address(2), address(3), rows_, columns_, maxima_,
                     uint64_t(addsNow(accumulate_, microstep))},
                    fp8Squares(rows_, columns_, kFp8TransposedSide));
    return launch(kernel_, {address(0), address(1), rows_, columns_}, fp8Squares(rows_, columns_, kFp8TransposedSide));
  }

private:
  CudaKernel kernel_;
  uint64_t rows_ = 0, columns_ = 0;
  uint64_t maxima_ = 0; ///< absolute maxima of parts, of which the largest is found; 0: none are wanted
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareCudaTransposeCodes(const CudaPrepare &from) {
  auto step = std::make_unique<CudaTransposeCodes>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
