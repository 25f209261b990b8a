// The numbers of a weight that is stored in fewer bits.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class DequantizeDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const Dequantize &call = check.step.dequantize();
    ZTC_RETURN_IF_ERROR(check.count(2));
    ZTC_RETURN_IF_ERROR(check.real(call.type()));
    const std::optional<QuantizedLayout> layout = quantizedLayout(call.format(), call.rows(), call.columns());
    if (!layout)
      return dataLoss(
          fmt::format("a weight of format {} and {} x {} elements", int(call.format()), call.rows(), call.columns()));
    ZTC_RETURN_IF_ERROR(
        check.gpuServices(call, {fmt::format("gpu_dequantize_{}{}{}", weightFormatName(call.format()),
                                             layout->hasScalesByRow() ? "_rows" : "", kernelTypeSuffix(call.type()))}));
    ZTC_RETURN_IF_ERROR(check.holds(0, "bytes", layout->bytes));
    return check.holds(1, "matrix", CheckedBytes(call.rows()) * call.columns() * dataTypeBytes(call.type()));
  }

  std::string text(const Plan &, const Step &step) const override {
    const Dequantize &call = step.dequantize();
    return fmt::format("dequantize {} {}x{} to {}", weightFormatName(call.format()), call.rows(), call.columns(),
                       dataTypeName(call.type()));
  }

  const char *family(const Step &) const override { return "dequantize"; }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernel", "in front of the product that reads it",
                        gpuKernelsOf(step.dequantize()));
  }
};

} // namespace

const StepDefinition &defineDequantize() {
  static const DequantizeDefinition definition;
  return definition;
}

} // namespace ztc
