// The fp8 codes of a matrix, with one scale for all of it.
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

/// In which order codes are given.
const char *order(const QuantizeFp8 &call) {
  return !call.by_rows() ? "columns" : call.by_columns() ? "both" : "rows";
}

class QuantizeFp8Definition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const QuantizeFp8 &call = check.step.quantize_fp8();
    ZTC_RETURN_IF_ERROR(check.real(call.from()));
    if (!fp8DataType(call.to()))
      return dataLoss(fmt::format("fp8 codes of type {}", int(call.to())));
    if (!call.by_rows() && !call.by_columns())
      return dataLoss("fp8 codes in no order");
    // A kernel takes tiles of kFp8Tile x kFp8Tile elements.
    if (!call.rows() || !call.columns() || call.rows() % kFp8Tile || call.columns() % kFp8Tile)
      return dataLoss(fmt::format("fp8 codes of {} x {} elements, sizes are multiples of {}", call.rows(),
                                  call.columns(), kFp8Tile));
    ZTC_RETURN_IF_ERROR(check.count(3 + int(call.by_rows()) + int(call.by_columns())));
    const CheckedBytes elements = CheckedBytes(call.rows()) * call.columns();
    ZTC_RETURN_IF_ERROR(check.holds(0, "x", elements * dataTypeBytes(call.from())));
    ZTC_RETURN_IF_ERROR(check.holds(1, "scale", 2 * sizeof(float)));
    ZTC_RETURN_IF_ERROR(check.holds(2, "maxima", kFp8Partials * sizeof(float)));
    for (int operand = 3; operand < check.step.operands_size(); ++operand)
      ZTC_RETURN_IF_ERROR(check.holds(operand, "codes", elements));
    const std::string suffix = kernelTypeSuffix(call.from());
    return check.gpuServices(call, {"gpu_fp8_maxima" + suffix,
                                    fmt::format("gpu_quantize_{}_{}{}", dataTypeName(call.to()), order(call), suffix)});
  }

  std::string text(const Plan &, const Step &step) const override {
    const QuantizeFp8 &call = step.quantize_fp8();
    return fmt::format("quantize {}x{}{} to {} by {}", call.rows(), call.columns(), typeText(call.from()),
                       dataTypeName(call.to()), order(call));
  }

  const char *family(const Step &) const override { return "quantize"; }

  // x is read twice: its largest magnitude must be known before the first code.
  uint64_t bytes(const StepSizes &sizes) const override {
    const QuantizeFp8 &call = sizes.step.quantize_fp8();
    return call.rows() * call.columns() *
           (2 * dataTypeBytes(call.from()) + uint64_t(call.by_rows()) + uint64_t(call.by_columns()));
  }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernels",
                        "the largest magnitude, then the codes of the product's operand",
                        gpuKernelsOf(step.quantize_fp8()));
  }
};

} // namespace

const StepDefinition &defineQuantizeFp8() {
  static const QuantizeFp8Definition definition;
  return definition;
}

} // namespace ztc
