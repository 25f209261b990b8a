// Products of rows that belong to groups, or the sums of their outer products.
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

/// As ServiceKernels.md has it: a kernel, with narrow factors of `outer` one for results of f32 and one for narrow
/// ones.
std::vector<std::string> kernelNamesOf(const GroupedGemm &gemm) {
  const bool isNarrowFactor = isNarrow(gemm.type_a());
  const auto nameFor = [&](bool isWide) {
    return fmt::format("gpu_grouped_gemm{}{}{}{}",
                       gemm.outer()         ? "_outer"
                       : gemm.transpose_b() ? "_transposed"
                                            : "",
                       kernelTypeSuffix(gemm.type_a()), isNarrowFactor && isWide ? "_f32" : "",
                       isNarrowFactor && (gemm.n() % 8 || gemm.k() % 8) ? "_cut" : "");
  };
  if (gemm.outer() && isNarrowFactor)
    return {nameFor(true), nameFor(false)};
  return {nameFor(gemm.type_c() == F32)};
}

/// The beginning of one name is another one's: nothing but a number may follow.
Status checkKernels(const StepCheck &check, const GroupedGemm &gemm) {
  const std::vector<std::string> names = kernelNamesOf(gemm);
  ZTC_RETURN_IF_ERROR(check.gpuServices(gemm, names));
  for (int i = 0; i < gemm.gpu_kernels_size(); ++i) {
    const std::string &found = check.plan.kernels(int(gemm.gpu_kernels(i))).name();
    if (found.find_first_not_of("_0123456789", names[size_t(i)].size()) != std::string::npos)
      return dataLoss(
          fmt::format("kernel {} '{}' is not the service kernel {}", gemm.gpu_kernels(i), found, names[size_t(i)]));
  }
  return Status::ok();
}

class GroupedGemmDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const GroupedGemm &gemm = check.step.grouped_gemm();
    const DataType type = gemm.type_a();
    if (!StepCheck::real(type).isOk() || !StepCheck::real(gemm.type_c()).isOk() ||
        (gemm.type_c() != F32 && gemm.type_c() != type))
      return dataLoss(
          fmt::format("grouped product of type {} into {}", dataTypeName(type), dataTypeName(gemm.type_c())));
    ZTC_RETURN_IF_ERROR(check.count(isNarrow(type) ? 5 : 4));
    ZTC_RETURN_IF_ERROR(StepCheck::accumulation(gemm.accumulate()));
    if (!gemm.outer() && gemm.accumulate() != OVERWRITE)
      return dataLoss("a grouped product of rows that adds to its result");
    if (gemm.outer() && gemm.transpose_b())
      return dataLoss("sums of outer products with a transposed factor");
    if (!gemm.rows() || !gemm.n() || !gemm.k() || !gemm.groups() || gemm.rows() > INT32_MAX ||
        gemm.groups() >= INT32_MAX)
      return dataLoss(fmt::format("grouped product of size {} x {} x {} in {} groups", gemm.rows(), gemm.n(), gemm.k(),
                                  gemm.groups()));
    ZTC_RETURN_IF_ERROR(checkKernels(check, gemm));
    const uint64_t in = dataTypeBytes(type), out = dataTypeBytes(gemm.type_c());
    const CheckedBytes left = CheckedBytes(gemm.rows()) * gemm.k(), right = CheckedBytes(gemm.rows()) * gemm.n();
    const CheckedBytes matrices = CheckedBytes(gemm.groups()) * gemm.k() * gemm.n();
    ZTC_RETURN_IF_ERROR(check.holds(0, "a", left * in));
    ZTC_RETURN_IF_ERROR(check.holds(1, "b", (gemm.outer() ? right : matrices) * in));
    ZTC_RETURN_IF_ERROR(check.holds(2, "starts", CheckedBytes(gemm.groups() + 1) * 4));
    return check.holds(3, "c", (gemm.outer() ? matrices : right) * out);
  }

  std::string text(const Plan &, const Step &step) const override {
    const GroupedGemm &g = step.grouped_gemm();
    return fmt::format("grouped_gemm {} {}x{}x{}{}{}{}{}{}", g.groups(), g.outer() ? g.k() : g.rows(), g.n(),
                       g.outer() ? g.rows() : g.k(), g.outer() ? " outer" : "", g.transpose_b() ? " bT" : "",
                       typeText(g.type_a()),
                       g.type_a() == g.type_c() ? "" : fmt::format(" -> {}", dataTypeName(g.type_c())),
                       accumulateText(g.accumulate()));
  }

  const char *family(const Step &) const override { return "matrix products"; }

  StepWork work(const Plan &, const Step &step) const override {
    return step.grouped_gemm().type_a() == F32 ? StepWork::Product : StepWork::NarrowProduct;
  }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    std::vector<CallExecution> executions;
    if (host)
      executions.push_back(hostProduct(step.grouped_gemm().type_a()));
    if (gpu)
      executions.push_back({"gpu", "own kernel",
                            "tiles of a group's rows; how many rows a group has, a block finds out itself",
                            gpuKernelsOf(step.grouped_gemm())});
    return executions;
  }
};

} // namespace

const StepDefinition &defineGroupedGemm() {
  static const GroupedGemmDefinition definition;
  return definition;
}

} // namespace ztc
