// A matrix product of fp8 codes.
#include "runtime/Core/Sizes.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

class ScaledGemmDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const ScaledGemm &gemm = check.step.scaled_gemm();
    ZTC_RETURN_IF_ERROR(check.count(6));
    if (!fp8DataType(gemm.type_a()) || !fp8DataType(gemm.type_b()) || (gemm.type_a() == E5M2 && gemm.type_b() == E5M2))
      return dataLoss(fmt::format("a product of fp8 codes of types {} and {}", dataTypeName(gemm.type_a()),
                                  dataTypeName(gemm.type_b())));
    ZTC_RETURN_IF_ERROR(check.real(gemm.type_c()));
    ZTC_RETURN_IF_ERROR(StepCheck::accumulation(gemm.accumulate()));
    if (gemm.accumulate() != OVERWRITE && gemm.type_c() != F32)
      return dataLoss(fmt::format("a product of fp8 codes that is added to {}", dataTypeName(gemm.type_c())));
    for (uint64_t size : {gemm.m(), gemm.n(), gemm.k()})
      if (!size || size % kFp8Tile)
        return dataLoss(fmt::format("a product of fp8 codes of size {} x {} x {}, sizes are multiples of {}", gemm.m(),
                                    gemm.n(), gemm.k(), kFp8Tile));
    ZTC_RETURN_IF_ERROR(check.holds(0, "a", CheckedBytes(gemm.m()) * gemm.k()));
    ZTC_RETURN_IF_ERROR(check.holds(1, "b", CheckedBytes(gemm.n()) * gemm.k()));
    ZTC_RETURN_IF_ERROR(check.holds(2, "the scale of a", 2 * sizeof(float)));
    ZTC_RETURN_IF_ERROR(check.holds(3, "the scale of b", 2 * sizeof(float)));
    return check.holds(4, "c", CheckedBytes(gemm.m()) * gemm.n() * dataTypeBytes(gemm.type_c()));
  }

  std::string text(const Plan &, const Step &step) const override {
    const ScaledGemm &g = step.scaled_gemm();
    return fmt::format("gemm {}x{}x{} bT {} {} -> {}{}", g.m(), g.n(), g.k(), dataTypeName(g.type_a()),
                       dataTypeName(g.type_b()), dataTypeName(g.type_c()), accumulateText(g.accumulate()));
  }

  const char *family(const Step &) const override { return "matrix products"; }

  StepWork work(const Plan &, const Step &) const override { return StepWork::Fp8Product; }

  std::vector<CallExecution> executions(const Plan &plan, const Step &step, bool host, bool gpu) const override {
    std::vector<CallExecution> executions;
    if (host)
      executions.push_back({"host", "own products", "f32 panels of the codes' numbers", {}});
    if (!gpu)
      return executions;
    std::string workspace = "no workspace";
    if (const uint64_t bytes = gpuOperandBytes(plan, step, 5))
      workspace = "at most " + formatSize(bytes) + " of workspace";
    executions.push_back(
        {"gpu",
         "cuBLASLt",
         fmt::format("{} and {} operands with their scales, f32 sums, {}; the fastest algorithm that "
                     "repeats its bits, measured at the start of a run",
                     dataTypeName(step.scaled_gemm().type_a()), dataTypeName(step.scaled_gemm().type_b()), workspace),
         {}});
    return executions;
  }
};

} // namespace

const StepDefinition &defineScaledGemm() {
  static const ScaledGemmDefinition definition;
  return definition;
}

} // namespace ztc
