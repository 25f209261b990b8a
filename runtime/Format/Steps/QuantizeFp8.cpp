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

/// Operands before the absolute maxima of x's parts, which not every step is given.
int operandsBeforeAmax(const QuantizeFp8 &call) {
  return 3 + int(call.by_rows()) + int(call.by_columns());
}
bool isGivenAmax(const Step &step) {
  return !step.quantize_fp8().known_scale() && step.operands_size() > operandsBeforeAmax(step.quantize_fp8());
}

const char *scaleText(const Step &step) {
  return step.quantize_fp8().known_scale() ? ", known scale" : isGivenAmax(step) ? ", given amax" : "";
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
    if (!call.rows() || !call.columns() || call.rows() % kFp8Tile || call.columns() % kFp8Tile)
      return dataLoss(fmt::format("fp8 codes of {} x {} elements, sizes are multiples of {}", call.rows(),
                                  call.columns(), kFp8Tile));
    const int codes = operandsBeforeAmax(call);
    ZTC_RETURN_IF_ERROR(StepCheck::accumulation(call.accumulate()));
    if (call.accumulate() != OVERWRITE && !call.known_scale())
      return dataLoss("fp8 codes of a scale of their own that are added to something");
    ZTC_RETURN_IF_ERROR(check.count(codes + int(call.known_scale() || isGivenAmax(check.step))));
    const CheckedBytes elements = CheckedBytes(call.rows()) * call.columns();
    ZTC_RETURN_IF_ERROR(check.holds(0, "x", elements * dataTypeBytes(call.from())));
    ZTC_RETURN_IF_ERROR(check.holds(1, "scale", 2 * sizeof(float)));
    const uint64_t partials = call.known_scale() ? fp8Blocks(call.rows(), call.columns()) : kFp8Partials;
    ZTC_RETURN_IF_ERROR(check.holds(2, "maxima", partials * sizeof(float)));
    for (int operand = 3; operand < codes; ++operand)
      ZTC_RETURN_IF_ERROR(check.holds(operand, "codes", elements));
    if (isGivenAmax(check.step)) {
      const uint64_t bytes = check.step.operands(codes).bytes();
      if (!bytes || bytes % (kFp8Tile * dataTypeBytes(call.from())))
        return dataLoss(
            fmt::format("absolute maxima of {} bytes, a multiple of {} elements is expected", bytes, kFp8Tile));
      ZTC_RETURN_IF_ERROR(check.holds(codes, "amax", bytes));
    }
    if (call.known_scale())
      ZTC_RETURN_IF_ERROR(check.holds(codes, "absolute maximum", sizeof(float)));
    const std::string suffix = kernelTypeSuffix(call.from());
    if (call.known_scale())
      return check.gpuServices(
          call, {fmt::format("gpu_encode_{}_{}{}", dataTypeName(call.to()), order(call), suffix), "gpu_fp8_largest"});
    return check.gpuServices(call, {"gpu_fp8_maxima" + suffix,
                                    fmt::format("gpu_quantize_{}_{}{}", dataTypeName(call.to()), order(call), suffix)});
  }

  std::string text(const Plan &, const Step &step) const override {
    const QuantizeFp8 &call = step.quantize_fp8();
    return fmt::format("quantize {}x{}{} to {} by {}{}{}", call.rows(), call.columns(), typeText(call.from()),
                       dataTypeName(call.to()), order(call), scaleText(step), lastOnlyText(step));
  }

  const char *family(const Step &) const override { return "quantize"; }

  // The largest magnitude must be known before the first code: x is read twice unless it or the scale is given.
  uint64_t bytes(const StepSizes &sizes) const override {
    const QuantizeFp8 &call = sizes.step.quantize_fp8();
    const uint64_t elements = call.rows() * call.columns();
    const uint64_t read = elements * dataTypeBytes(call.from());
    const uint64_t searched = call.known_scale()        ? 0
                              : isGivenAmax(sizes.step) ? sizes.step.operands(operandsBeforeAmax(call)).bytes()
                                                        : read;
    return read + searched + elements * (uint64_t(call.by_rows()) + uint64_t(call.by_columns()));
  }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernels",
                        step.quantize_fp8().known_scale()
                            ? "the codes of the product's operand, with the scale of the step before"
                        : isGivenAmax(step) ? "the codes of the product's operand, whose absolute maxima are given"
                                            : "the largest magnitude, then the codes of the product's operand",
                        gpuKernelsOf(step.quantize_fp8()));
  }
};

} // namespace

const StepDefinition &defineQuantizeFp8() {
  static const QuantizeFp8Definition definition;
  return definition;
}

} // namespace ztc
