// The transposed matrix of fp8 codes.
#include "runtime/Core/Fp8.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class TransposeCodesDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const TransposeCodes &call = check.step.transpose_codes();
    if (!call.rows() || !call.columns() || call.rows() % kFp8Tile || call.columns() % kFp8Tile)
      return dataLoss(fmt::format("fp8 codes of {} x {} elements, sizes are multiples of {}", call.rows(),
                                  call.columns(), kFp8Tile));
    ZTC_RETURN_IF_ERROR(check.count(2));
    const CheckedBytes bytes = CheckedBytes(call.rows()) * call.columns();
    ZTC_RETURN_IF_ERROR(check.holds(0, "codes", bytes));
    ZTC_RETURN_IF_ERROR(check.holds(1, "transposed codes", bytes));
    return check.gpuServices(call, {"gpu_transpose_codes"});
  }

  std::string text(const Plan &, const Step &step) const override {
    return fmt::format("transpose {}x{} codes", step.transpose_codes().rows(), step.transpose_codes().columns());
  }

  const char *family(const Step &) const override { return "quantize"; }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    return executionsOf(host, gpu, "own loop", "own kernel", "the codes of the product's operand, transposed",
                        gpuKernelsOf(step.transpose_codes()));
  }
};

} // namespace

const StepDefinition &defineTransposeCodes() {
  static const TransposeCodesDefinition definition;
  return definition;
}

} // namespace ztc
