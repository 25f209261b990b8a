// The head and the loss, chunk by chunk.
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace ztc {

using namespace plan;

namespace {

Status checkKernels(const StepCheck &check, const LinearCrossEntropy &loss) {
  const std::string rows = loss.training() ? "cross_entropy_rows" : "cross_entropy_rows_loss";
  ZTC_RETURN_IF_ERROR(check.hostService(loss.rows_kernel(), rows, !loss.gpu_kernels().empty()));
  const bool narrow = loss.training() && isNarrow(loss.type());
  const uint64_t lanes = std::gcd(loss.vocabulary(), uint64_t(narrow ? 8 : 4));
  ZTC_RETURN_IF_ERROR(check.gpuServices(
      loss, {fmt::format("gpu_{}{}_{}", rows, narrow ? kernelTypeSuffix(loss.type()) : "", lanes), "gpu_loss_sum"}));
  if (!loss.gpu_kernels().empty() && !loss.gpu_chunk())
    return dataLoss("linear_cross_entropy without a chunk for GPUs");
  return Status::ok();
}

/// In training without the operand for the head's cotangent.
bool isHeadFrozen(const Step &step) {
  const LinearCrossEntropy &loss = step.linear_cross_entropy();
  return loss.training() && step.operands_size() == 7 + (isNarrow(loss.type()) ? 1 : 0);
}

class LinearCrossEntropyDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const LinearCrossEntropy &loss = check.step.linear_cross_entropy();
    ZTC_RETURN_IF_ERROR(StepCheck::real(loss.type()));
    const bool hasHead = loss.training() && !isHeadFrozen(check.step);
    ZTC_RETURN_IF_ERROR(check.count((hasHead ? 8 : loss.training() ? 7 : 5) + (isNarrow(loss.type()) ? 1 : 0)));
    ZTC_RETURN_IF_ERROR(checkKernels(check, loss));
    ZTC_RETURN_IF_ERROR(StepCheck::accumulation(loss.accumulate()));
    ZTC_RETURN_IF_ERROR(StepCheck::accumulation(loss.loss_accumulate()));
    if (!loss.tokens() || !loss.width() || !loss.vocabulary() || !loss.chunk())
      return dataLoss("linear_cross_entropy with a size of zero");
    const uint64_t bytes = dataTypeBytes(loss.type());
    const CheckedBytes hidden = CheckedBytes(loss.tokens()) * loss.width(),
                       head = CheckedBytes(loss.vocabulary()) * loss.width();
    ZTC_RETURN_IF_ERROR(check.holds(0, "hidden", hidden * bytes));
    ZTC_RETURN_IF_ERROR(check.holds(1, "head", head * bytes));
    ZTC_RETURN_IF_ERROR(check.holds(2, "targets", CheckedBytes(loss.tokens()) * 4));
    const uint64_t groups = std::max<uint64_t>(1, loss.groups());
    if (loss.tokens() % groups || (loss.training() && groups > 1))
      return dataLoss(fmt::format("linear_cross_entropy with {} losses of {} rows", groups, loss.tokens()));
    ZTC_RETURN_IF_ERROR(check.holds(3, "loss", CheckedBytes(groups) * 4));
    if (!loss.training())
      return Status::ok();
    ZTC_RETURN_IF_ERROR(check.holds(5, "scale", 4));
    ZTC_RETURN_IF_ERROR(check.holds(6, "dhidden", hidden * bytes));
    return hasHead ? check.holds(7, "dhead", head * 4) : Status::ok();
  }

  std::string text(const Plan &, const Step &step) const override {
    const LinearCrossEntropy &l = step.linear_cross_entropy();
    return fmt::format("linear_cross_entropy{}{} {} tokens x {} -> {}, {}{} rows a chunk{}",
                       l.training() ? "" : " (loss only)", typeText(l.type()), l.tokens(), l.width(), l.vocabulary(),
                       l.groups() > 1 ? fmt::format("{} losses, ", l.groups()) : "", l.chunk(),
                       accumulateText(l.accumulate()));
  }

  const char *family(const Step &) const override { return "head and loss"; }

  StepWork work(const Plan &, const Step &step) const override {
    return isNarrow(step.linear_cross_entropy().type()) ? StepWork::NarrowProduct : StepWork::Product;
  }

  std::vector<CallExecution> executions(const Plan &, const Step &step, bool host, bool gpu) const override {
    const LinearCrossEntropy &loss = step.linear_cross_entropy();
    std::vector<CallExecution> executions;
    if (host) {
      CallExecution execution = hostProduct(loss.type());
      execution.reason = fmt::format("products of {} rows at a time, between them rows by a kernel", loss.chunk());
      execution.kernels = {loss.rows_kernel()};
      executions.push_back(std::move(execution));
    }
    if (!gpu)
      return executions;
    // Logits are written and read in f32; cotangents in their place are written once and read by two products.
    const uint64_t logits = loss.tokens() * loss.vocabulary(), narrow = dataTypeBytes(loss.type());
    const uint64_t bytes = logits * (loss.training() ? 8 + (isHeadFrozen(step) ? 2 : 3) * narrow : 8);
    executions.push_back(
        {"gpu", "cuBLASLt",
         fmt::format("{} products of {} rows at a time, between them rows by a kernel; logits and their cotangents "
                     "move {} besides",
                     !loss.training()     ? 1
                     : isHeadFrozen(step) ? 2
                                          : 3,
                     std::min(std::max<uint64_t>(1, loss.gpu_chunk()), loss.tokens()), formatSize(bytes)),
         gpuKernelsOf(loss)});
    return executions;
  }
};

} // namespace

const StepDefinition &defineLinearCrossEntropy() {
  static const LinearCrossEntropyDefinition definition;
  return definition;
}

} // namespace ztc
