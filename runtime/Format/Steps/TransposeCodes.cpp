// The transposed matrix of fp8 codes.
#include "runtime/Core/Fp8.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
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
    const bool isNoting = call.maxima() != DATA_TYPE_UNSPECIFIED;
    ZTC_RETURN_IF_ERROR(check.count(isNoting ? 4 : 2));
    ZTC_RETURN_IF_ERROR(StepCheck::accumulation(call.accumulate()));
    if (call.accumulate() != OVERWRITE && !isNoting)
      return dataLoss("transposed codes that are added to something");
    const CheckedBytes bytes = CheckedBytes(call.rows()) * call.columns();
    ZTC_RETURN_IF_ERROR(check.holds(0, "codes", bytes));
    ZTC_RETURN_IF_ERROR(check.holds(1, "transposed codes", bytes));
    if (!isNoting)
      return check.gpuServices(call, {"gpu_transpose_codes"});
    ZTC_RETURN_IF_ERROR(check.real(call.maxima()));
    const uint64_t given = check.step.operands(2).bytes();
    if (!given || given % (kFp8Tile * dataTypeBytes(call.maxima())))
      return dataLoss(
          fmt::format("absolute maxima of {} bytes, a multiple of {} elements is expected", given, kFp8Tile));
    ZTC_RETURN_IF_ERROR(check.holds(2, "absolute maxima", given));
    ZTC_RETURN_IF_ERROR(check.holds(3, "absolute maximum", sizeof(float)));
    return check.gpuServices(call, {"gpu_note_codes" + std::string(kernelTypeSuffix(call.maxima()))});
  }

  std::string text(const Plan &, const Step &step) const override {
    const TransposeCodes &call = step.transpose_codes();
    return fmt::format("transpose {}x{} codes{}", call.rows(), call.columns(),
                       call.maxima() == DATA_TYPE_UNSPECIFIED ? "" : ", note amax");
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
