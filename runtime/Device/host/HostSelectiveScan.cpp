// Selective scans: a generated kernel over vectors of channels, of the gradient over groups of them.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/ScanSizes.h"
#include <array>
#include <vector>

namespace ztc {
namespace {

/// Operands: v, delta, rate, b, c, y, states; of the gradient v, delta, rate, b, c, states, dy, dv, ddelta, drate, db,
/// dc, scratch; of packed rows starts, the last.
class HostSelectiveScan : public HostStep {
public:
  explicit HostSelectiveScan(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::SelectiveScan &scan = from.step.selective_scan();
    const uint64_t B = scan.batch(), T = scan.positions(), D = scan.channels(), N = scan.states();
    grad_ = scan.grad();
    const size_t starts = grad_ ? 13 : 7;
    ZTC_RETURN_IF_ERROR(resolve(from, {int(starts) + (scan.packed() ? 1 : 0)}));
    if (!B || !T || !D || !N || !scan.chunk() || D % kScanLanes || N > kMaxScanStates)
      return dataLoss("selective_scan of sizes that there is no kernel for");
    const uint64_t chunks = scanChunks(T, scan.chunk()), groups = scanGroups(D);
    const auto likeV = grad_ ? std::vector<size_t>{0, 1, 6, 7, 8} : std::vector<size_t>{0, 1, 5};
    for (size_t index : likeV)
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {B, T, D}));
    ZTC_RETURN_IF_ERROR(requireElements(from, 2, {N, D}));
    for (size_t index : {3, 4})
      ZTC_RETURN_IF_ERROR(requireElements(from, index, {B, T, N}));
    ZTC_RETURN_IF_ERROR(requireElements(from, grad_ ? 5 : 6, {B, chunks, N, D}));
    if (grad_) {
      ZTC_RETURN_IF_ERROR(requireElements(from, 9, {B, N, D}));
      for (size_t index : {10, 11})
        ZTC_RETURN_IF_ERROR(requireElements(from, index, {groups, B, T, N}));
      scratchBytes_ = scanScratchBytes(scan.chunk(), N);
      ZTC_RETURN_IF_ERROR(requireElements(from, Scratch, {resources_.pool.threads(), scratchBytes_}, 1));
    }
    if (scan.packed())
      ZTC_RETURN_IF_ERROR(requireElements(from, starts, {B, T}));
    scalars_ = {int64_t(T), int64_t(D), int64_t(N), int64_t(scan.chunk()), int64_t(B)};
    units_ = B * (grad_ ? groups : D / kScanLanes);
    ZTC_ASSIGN_OR_RETURN(kernel_, resources_.kernels.find(scan.scan_kernel()));
    return Status::ok();
  }

  Status execute(uint32_t) override {
    resources_.pool.parallelFor(units_, 1, [&](uint32_t worker, uint64_t begin, uint64_t end) {
      std::array<void *, Scratch + 2> buffers{};
      for (size_t i = 0; i < operandCount(); ++i)
        buffers[i] = pointer(i);
      if (grad_)
        buffers[Scratch] = pointer<std::byte>(Scratch) + worker * scratchBytes_;
      kernel_(buffers.data(), scalars_.data(), int64_t(begin), int64_t(end));
    });
    return Status::ok();
  }

private:
  static constexpr size_t Scratch = 12; ///< operand of the gradient

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
