// Selective scans: a generated kernel over vectors of channels, of the gradient over groups of them.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/ScanOperands.h"
#include <array>
#include <vector>

namespace ztc {
namespace {

class HostSelectiveScan : public HostStep {
public:
  explicit HostSelectiveScan(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::SelectiveScan &scan = from.step.selective_scan();
    const uint64_t B = scan.batch(), T = scan.positions(), D = scan.channels(), N = scan.states();
    grad_ = scan.grad();
    if (!B || !T || !D || !N || !scan.chunk() || D % kScanLanes || N > kMaxScanStates)
      return dataLoss("no kernel supports the sizes of this selective_scan");
    const std::vector<ScanOperand> operands = scanOperands(scan);
    ZTC_RETURN_IF_ERROR(resolve(from, {int(operands.size())}));
    for (size_t i = 0; i < operands.size(); ++i)
      ZTC_RETURN_IF_ERROR(require(from, i, operands[i].bytes));
    if (grad_) {
      scratchBytes_ = scanScratchBytes(scan.chunk(), N);
      ZTC_RETURN_IF_ERROR(
          requireElements(from, kScanScratchOperand, {resources_.pool.threads(), scratchBytes_}, /*elementBytes=*/1));
    }
    scalars_ = {int64_t(T), int64_t(D), int64_t(N), int64_t(scan.chunk()), int64_t(B)};
    units_ = B * (grad_ ? scanGroups(D) : D / kScanLanes);
    ZTC_ASSIGN_OR_RETURN(kernel_, resources_.kernels.find(scan.scan_kernel()));
    return Status::ok();
  }

  Status execute(uint32_t) override {
    resources_.pool.parallelFor(units_, 1, [&](uint32_t worker, uint64_t begin, uint64_t end) {
      std::array<void *, kScanScratchOperand + 2> buffers{};
      for (size_t i = 0; i < operandCount(); ++i)
        buffers[i] = pointer(i);
      if (grad_)
        buffers[kScanScratchOperand] = pointer<std::byte>(kScanScratchOperand) + worker * scratchBytes_;
      kernel_(buffers.data(), scalars_.data(), int64_t(begin), int64_t(end));
    });
    return Status::ok();
  }

private:
  bool grad_ = false;
  uint64_t units_ = 0, scratchBytes_ = 0;
  std::array<int64_t, 5> scalars_{};
  KernelFunction kernel_ = nullptr;
};

} // namespace

PreparedStep prepareHostSelectiveScan(const HostPrepare &from) {
  auto step = std::make_unique<HostSelectiveScan>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
