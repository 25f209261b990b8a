// Weights that are stored in fewer bits, in front of what reads them.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaDequantize : public CudaStep {
public:
  explicit CudaDequantize(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Dequantize &call = from.step.dequantize();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {2}));
    const std::optional<QuantizedLayout> layout = quantizedLayout(call.format(), call.rows(), call.columns());
    if (!layout)
      return dataLoss(fmt::format("no numbers of format {}", int(call.format())));
    layout_ = *layout;
    ZTC_RETURN_IF_ERROR(operands_.require(0, layout_.bytes));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(1, {call.rows(), call.columns()}, dataTypeBytes(call.type())));
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(call.gpu_kernels(), 1));
    kernel_ = kernels[0];
    return Status::ok();
  }

  Status execute(uint32_t) override {
    if (layout_.format == plan::INT8) {
      const uint64_t units = (layout_.columns + kUnit - 1) / kUnit;
      return launch(kernel_, {address(0), address(1), layout_.columns, units, layout_.scales}, layout_.rows * units);
    }
    const uint64_t units = (layout_.elements() + kUnit - 1) / kUnit;
    if (layout_.format == plan::NF4_SINGLE || layout_.format == plan::MXFP4)
      return layout_.hasScalesByRow()
                 ? launch(kernel_,
                          {address(0), address(1), layout_.elements(), layout_.scales, layout_.map, layout_.columns},
                          units)
                 : launch(kernel_, {address(0), address(1), layout_.elements(), layout_.scales, layout_.map}, units);
    if (layout_.hasScalesByRow())
      return launch(kernel_,
                    {address(0), address(1), layout_.elements(), layout_.scales, layout_.nestedScales,
                     layout_.nestedMap, layout_.map, layout_.mean, layout_.columns},
                    units);
    return launch(kernel_,
                  {address(0), address(1), layout_.elements(), layout_.scales, layout_.nestedScales, layout_.nestedMap,
                   layout_.map, layout_.mean},
                  units);
  }

private:
  /// Elements that a thread of the kernel writes.
  static constexpr uint64_t kUnit = 8;

  CudaKernel kernel_;
  QuantizedLayout layout_;
};

} // namespace

PreparedStep prepareCudaDequantize(const CudaPrepare &from) {
  auto step = std::make_unique<CudaDequantize>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
