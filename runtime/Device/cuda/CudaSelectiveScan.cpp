// Selective scans: one kernel, a block for 64 channels of a sequence.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/ScanSizes.h"
#include <vector>

namespace ztc {
namespace {

/// Operands as the host's.
class CudaSelectiveScan : public CudaStep {
public:
  explicit CudaSelectiveScan(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::SelectiveScan &scan = from.step.selective_scan();
    const uint64_t B = scan.batch(), T = scan.positions(), D = scan.channels(), N = scan.states();
    const bool grad = scan.grad();
    const size_t starts = grad ? 13 : 7;
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {int(starts) + (scan.packed() ? 1 : 0)}));
    const uint64_t chunks = scanChunks(T, scan.chunk()), groups = scanGroups(D);
    const auto likeV = grad ? std::vector<size_t>{0, 1, 6, 7, 8} : std::vector<size_t>{0, 1, 5};
    for (size_t index : likeV)
      ZTC_RETURN_IF_ERROR(operands_.requireElements(index, {B, T, D}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(2, {N, D}));
    for (size_t index : {3, 4})
      ZTC_RETURN_IF_ERROR(operands_.requireElements(index, {B, T, N}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(grad ? 5 : 6, {B, chunks, N, D}));
    if (grad) {
      ZTC_RETURN_IF_ERROR(operands_.requireElements(9, {B, N, D}));
      for (size_t index : {10, 11})
        ZTC_RETURN_IF_ERROR(operands_.requireElements(index, {groups, B, T, N}));
      ZTC_RETURN_IF_ERROR(operands_.requireElements(12, {gpuScanScratchBytes(B, D, scan.chunk(), N)}, 1));
    }
    if (scan.packed())
      ZTC_RETURN_IF_ERROR(operands_.requireElements(starts, {B, T}));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(scan.gpu_kernels(), 1));
    kernel_ = kernels[0];
    words_.resize(operands_.count());
    words_.insert(words_.end(), {T, D, scan.chunk(), B, B * groups});
    return Status::ok();
  }

  Status execute(uint32_t) override {
    for (size_t i = 0; i < operands_.count(); ++i)
      words_[i] = address(i);
    return launch(kernel_, words_.data(), words_.size());
  }

private:
  CudaKernel kernel_;
  std::vector<uint64_t> words_; ///< addresses, scalars and the extent
};

} // namespace

PreparedStep prepareCudaSelectiveScan(const CudaPrepare &from) {
  auto step = std::make_unique<CudaSelectiveScan>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
