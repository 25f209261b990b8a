// A matrix product of a library, or a batch of them.
#include "runtime/Core/Sizes.h"
#include "runtime/Format/GemmOperands.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

/// A matrix (or a batch of them) of rows x columns with row stride `ld` inside operand `index`.
Status checkMatrix(const StepCheck &check, int index, const char *name, uint64_t rows, uint64_t columns, uint64_t ld,
                   uint64_t batch, uint64_t stride, uint64_t bytes) {
  if (ld < columns && rows > 1)
    return dataLoss(fmt::format("operand {} ({}): row stride {} below {} columns", index, name, ld, columns));
  return check.holds(index, name, (CheckedBytes(batch - 1) * stride + CheckedBytes(rows - 1) * ld + columns) * bytes);
}

class GemmDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const Gemm &gemm = check.step.gemm();
    const DataType type = gemm.type_a();
    if (!StepCheck::real(type).isOk() || !StepCheck::real(gemm.type_c()).isOk())
      return dataLoss(fmt::format("matrix product of unknown types {} and {}", int(type), int(gemm.type_c())));
    if (gemm.type_c() != F32 && gemm.type_c() != type)
      return dataLoss(fmt::format("matrix product of {} into {}", dataTypeName(type), dataTypeName(gemm.type_c())));
    const GemmOperands more = GemmOperands::of(check.step);
    const bool addsOperand = check.step.operands_size() > GemmOperands::kMatrix;
    ZTC_RETURN_IF_ERROR(check.count(addsOperand ? more.count() : isNarrow(type) ? 4 : 3));
    if (gemm.gelu() && !gemm.bias())
      return dataLoss("GELU of a matrix product without a bias");
    if (gemm.bias() && (!addsOperand || gemm.batch() > 1))
      return dataLoss(addsOperand ? "a bias of several matrix products" : "a bias that is not among the operands");
    if (addsOperand && (gemm.type_c() != type || !isNarrow(type) || gemm.accumulate() != OVERWRITE))
      return dataLoss(fmt::format("matrix product of {} into {} that adds an operand{}", dataTypeName(type),
                                  dataTypeName(gemm.type_c()),
                                  gemm.accumulate() == OVERWRITE ? "" : ", and to its result"));
    ZTC_RETURN_IF_ERROR(StepCheck::accumulation(gemm.accumulate()));
    const uint64_t batch = gemm.batch() ? gemm.batch() : 1;
    if (!gemm.m() || !gemm.n() || !gemm.k())
      return dataLoss(fmt::format("matrix product of size {} x {} x {}", gemm.m(), gemm.n(), gemm.k()));
    const uint64_t in = dataTypeBytes(type), out = dataTypeBytes(gemm.type_c());
    const bool ta = gemm.transpose_a(), tb = gemm.transpose_b();
    ZTC_RETURN_IF_ERROR(checkMatrix(check, 0, "a", ta ? gemm.k() : gemm.m(), ta ? gemm.m() : gemm.k(), gemm.lda(),
                                    batch, gemm.stride_a(), in));
    ZTC_RETURN_IF_ERROR(checkMatrix(check, 1, "b", tb ? gemm.n() : gemm.k(), tb ? gemm.k() : gemm.n(), gemm.ldb(),
                                    batch, gemm.stride_b(), in));
    // Each product has its own result; operands may be the same for all.
    if (batch > 1 && gemm.stride_c() < gemm.n())
      return dataLoss(
          fmt::format("{} products, whose results of {} columns are {} apart", batch, gemm.n(), gemm.stride_c()));
    if (more.matrix)
      ZTC_RETURN_IF_ERROR(
          checkMatrix(check, GemmOperands::kMatrix, "d", gemm.m(), gemm.n(), gemm.ldc(), batch, gemm.stride_c(), out));
    if (gemm.bias())
      ZTC_RETURN_IF_ERROR(checkMatrix(check, more.biasIndex(), "bias", 1, gemm.n(), gemm.n(), 1, 0, out));
    if (more.sums)
      ZTC_RETURN_IF_ERROR(checkMatrix(check, GemmOperands::kSums, "sums", gemm.m(), gemm.n(), gemm.ldc(), 1, 0, out));
    return checkMatrix(check, 2, "c", gemm.m(), gemm.n(), gemm.ldc(), batch, gemm.stride_c(), out);
  }

  std::string text(const Plan &, const Step &step) const override {
    const Gemm &g = step.gemm();
    return fmt::format("gemm {}{}x{}x{}{}{}{}{}{}{}{}{}", g.batch() > 1 ? fmt::format("{} x ", g.batch()) : "", g.m(),
                       g.n(), g.k(), g.transpose_a() ? " aT" : "", g.transpose_b() ? " bT" : "", typeText(g.type_a()),
                       g.type_a() == g.type_c() ? "" : fmt::format(" -> {}", dataTypeName(g.type_c())),
                       GemmOperands::of(step).matrix ? " + d" : "", g.bias() ? " + bias" : "", g.gelu() ? ", gelu" : "",
                       accumulateText(g.accumulate()));
  }

  const char *family(const Step &) const override { return "matrix products"; }

  StepWork work(const Plan &, const Step &step) const override {
    return step.gemm().type_a() == F32 ? StepWork::Product : StepWork::NarrowProduct;
  }

  std::vector<CallExecution> executions(const Plan &plan, const Step &step, bool host, bool gpu) const override {
    std::vector<CallExecution> executions;
    if (host)
      executions.push_back(hostProduct(step.gemm().type_a()));
    if (!gpu)
      return executions;
    std::string workspace = "no workspace";
    if (const uint64_t bytes = gpuOperandBytes(plan, step, 3))
      workspace = "at most " + formatSize(bytes) + " of workspace";
    executions.push_back(
        {"gpu",
         "cuBLASLt",
         fmt::format("{} operands, f32 sums, {}; the fastest algorithm that repeats its bits, measured at the start of "
                     "a run",
                     dataTypeName(step.gemm().type_a()), workspace),
         {}});
    return executions;
  }
};

} // namespace

const StepDefinition &defineGemm() {
  static const GemmDefinition definition;
  return definition;
}

} // namespace ztc
