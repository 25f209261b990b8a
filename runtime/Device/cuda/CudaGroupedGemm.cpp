// Products of rows that belong to groups: one kernel, over as many blocks as the groups could need. How many rows a
// group has is known to the GPU alone.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/ExpertKernels.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaGroupedGemm : public CudaStep {
public:
  explicit CudaGroupedGemm(const CudaPrepare &from) : CudaStep(from), gemm_(from.step.grouped_gemm()) {}

  Status prepare(const CudaPrepare &from) {
    const uint64_t rows = gemm_.rows(), n = gemm_.n(), k = gemm_.k(), groups = gemm_.groups();
    const uint64_t in = dataTypeBytes(gemm_.type_a()), out = dataTypeBytes(gemm_.type_c());
    const bool isNarrowFactor = isNarrow(gemm_.type_a()), outer = gemm_.outer();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {isNarrowFactor ? 5 : 4}));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {rows, k}, in));
    ZTC_RETURN_IF_ERROR(outer ? operands_.requireElements(1, {rows, n}, in)
                              : operands_.requireElements(1, {groups, k, n}, in));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(2, {groups + 1}));
    ZTC_RETURN_IF_ERROR(outer ? operands_.requireElements(3, {groups, k, n}, out)
                              : operands_.requireElements(3, {rows, n}, out));
    ZTC_RETURN_IF_ERROR(requireAligned());
    blocks_ = groupedBlocks(outer, rows, n, k, groups, groupedTile(isNarrowFactor));
    // Kernels count rows, columns and blocks in 32 bits.
    if (std::max({rows, n, k, groups, blocks_}) > INT32_MAX)
      return dataLoss(fmt::format("a grouped product of {} x {} x {} in {} groups takes {} blocks of a GPU, {} are the "
                                  "most",
                                  rows, n, k, groups, blocks_, INT32_MAX));
    // Of sums of outer products with narrow factors one for results of f32 and one for narrow ones.
    const bool hasTwo = outer && isNarrowFactor;
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(gemm_.gpu_kernels(), hasTwo ? 2 : 1));
    kernel_ = kernels[hasTwo && gemm_.type_c() != plan::F32 ? 1 : 0];
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    const uint64_t rows = gemm_.rows(), n = gemm_.n(), k = gemm_.k(), groups = gemm_.groups();
    if (!gemm_.outer())
      return launch(kernel_, {address(0), address(1), address(2), address(3), rows, n, k, groups}, blocks_);
    return launch(kernel_,
                  {address(0), address(1), address(2), address(3), rows, n, k, groups,
                   uint64_t(addsNow(gemm_.accumulate(), microstep))},
                  blocks_);
  }

private:
  const plan::GroupedGemm gemm_;
  CudaKernel kernel_;
  uint64_t blocks_ = 0;
};

} // namespace

PreparedStep prepareCudaGroupedGemm(const CudaPrepare &from) {
  auto step = std::make_unique<CudaGroupedGemm>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
