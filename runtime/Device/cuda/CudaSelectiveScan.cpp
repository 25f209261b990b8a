// Selective scans: one kernel, a block for 64 channels of a sequence.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/ScanOperands.h"
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
    const std::vector<ScanOperand> operands = scanOperands(scan);
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {int(operands.size())}));
    for (size_t i = 0; i < operands.size(); ++i)
      ZTC_RETURN_IF_ERROR(operands_.require(i, operands[i].bytes));
    if (scan.grad())
      ZTC_RETURN_IF_ERROR(operands_.require(kScanScratchOperand, gpuScanScratchBytes(B, D, scan.chunk(), N)));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(scan.gpu_kernels(), 1));
    kernel_ = kernels[0];
    words_.resize(operands_.count());
    words_.insert(words_.end(), {T, D, scan.chunk(), B, B * scanGroups(D)});
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
