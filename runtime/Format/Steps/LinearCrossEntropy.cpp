// The head and the loss, chunk by chunk.
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/ScratchSizes.h"
#include "runtime/Format/Steps/LossRows.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/Steps/StepExecutions.h"
#include "runtime/Format/Steps/StepWords.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

using namespace plan;

namespace {

Status checkKernels(const StepCheck &check, const LinearCrossEntropy &loss) {
  const std::string rows =
      fmt::format("cross_entropy_rows{}{}", loss.training() ? "" : "_loss", loss.weighted() ? "_weighted" : "");
  ZTC_RETURN_IF_ERROR(check.hostService(loss.rows_kernel(), rows, !loss.gpu_kernels().empty()));
  const uint64_t lanes = isNarrow(loss.type()) ? 8 : 4;
  ZTC_RETURN_IF_ERROR(check.gpuServices(loss, {fmt::format("gpu_{}{}_{}{}", rows, kernelTypeSuffix(loss.type()), lanes,
                                                           loss.vocabulary() % lanes ? "_cut" : ""),
                                               "gpu_loss_sum"}));
  if (!loss.gpu_kernels().empty() && !loss.gpu_chunk())
    return dataLoss("linear_cross_entropy without a chunk for GPUs");
  return Status::ok();
}

/// Operands after those of the computation: workspace of narrow products, weights of the rows.
int lastOperands(const LinearCrossEntropy &loss) {
  return (isNarrow(loss.type()) ? 1 : 0) + (loss.weighted() ? 1 : 0);
}

/// In training without the operand for the head's cotangent.
bool isHeadFrozen(const Step &step) {
  const LinearCrossEntropy &loss = step.linear_cross_entropy();
  return loss.training() && step.operands_size() == 7 + lastOperands(loss);
}

/// Rows of a chunk on a GPU.
uint64_t gpuRows(const LinearCrossEntropy &loss) {
  return std::min(std::max<uint64_t>(1, loss.gpu_chunk()), loss.tokens());
}

/// The logits, and in training the cotangents of hidden and of a trained head.
uint64_t products(const Step &step) {
  return !step.linear_cross_entropy().training() ? 1 : isHeadFrozen(step) ? 2 : 3;
}

/// Bytes of logits and their cotangents on a GPU. The product writes the logits, the rows read them for the softmax and
/// once more for the cotangents, which they write in their place; the other products read those.
uint64_t logitTraffic(const Step &step) {
  const LinearCrossEntropy &loss = step.linear_cross_entropy();
  return loss.tokens() * loss.vocabulary() * dataTypeBytes(loss.type()) * (loss.training() ? 3 + products(step) : 2);
}

/// Bytes on a GPU of the head's cotangent beyond one writing: each chunk after the first adds to it, in f32.
uint64_t sumBytes(const Step &step) {
  const LinearCrossEntropy &loss = step.linear_cross_entropy();
  return products(step) < 3 ? 0 : (loss.tokens() - 1) / gpuRows(loss) * loss.vocabulary() * loss.width() * 8;
}

class LinearCrossEntropyDefinition : public StepDefinition {
public:
  Status validate(const StepCheck &check) const override {
    const LinearCrossEntropy &loss = check.step.linear_cross_entropy();
    ZTC_RETURN_IF_ERROR(StepCheck::real(loss.type()));
    const bool hasHead = loss.training() && !isHeadFrozen(check.step);
    const int operands = (hasHead ? 8 : loss.training() ? 7 : 5) + lastOperands(loss);
    ZTC_RETURN_IF_ERROR(check.count(operands));
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
    if (loss.weighted())
      ZTC_RETURN_IF_ERROR(check.holds(operands - 1, "weights", CheckedBytes(loss.tokens()) * 4));
    if (!loss.training())
      return Status::ok();
    ZTC_RETURN_IF_ERROR(check.holds(5, "scale", 4));
    ZTC_RETURN_IF_ERROR(check.holds(6, "dhidden", hidden * bytes));
    return hasHead ? check.holds(7, "dhead", head * 4) : Status::ok();
  }

  std::string text(const Plan &, const Step &step) const override {
    const LinearCrossEntropy &l = step.linear_cross_entropy();
    return fmt::format(
        "linear_cross_entropy{}{}{} {} tokens x {} -> {}, {}{} rows a chunk{}{}", l.training() ? "" : " (loss only)",
        l.weighted() ? " weighted" : "", typeText(l.type()), l.tokens(), l.width(), l.vocabulary(),
        l.groups() > 1 ? fmt::format("{} losses, ", l.groups()) : "", l.chunk(),
        l.gpu_kernels().empty() ? "" : fmt::format(" ({} on a GPU)", gpuRows(l)), accumulateText(l.accumulate()));
  }

  const char *family(const Step &) const override { return "head and loss"; }

  uint64_t bytes(const StepSizes &sizes) const override {
    const uint64_t operands = sizes.operandBytes(/*withScratch=*/false);
    return sizes.onGpu ? operands + logitTraffic(sizes.step) + sumBytes(sizes.step) : operands;
  }

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
    const std::string sums =
        sumBytes(step) ? fmt::format(", sums of the head's cotangent {}", formatSize(sumBytes(step))) : "";
    executions.push_back({"gpu", "cuBLASLt",
                          fmt::format("{} products of {} rows at a time, between them rows by a kernel; logits and "
                                      "their cotangents move {}{} besides",
                                      products(step), gpuRows(loss), formatSize(logitTraffic(step)), sums),
                          gpuKernelsOf(loss)});
    return executions;
  }
};

} // namespace

bool isTrainingLoss(const Step &step) {
  return step.has_linear_cross_entropy() && step.linear_cross_entropy().training();
}

std::optional<LossChunks> lossChunks(const Step &step) {
  if (!step.has_linear_cross_entropy())
    return std::nullopt;
  const LinearCrossEntropy &loss = step.linear_cross_entropy();
  return LossChunks{loss.tokens(), loss.width(),    loss.vocabulary(),   gpuRows(loss),
                    loss.type(),   loss.training(), products(step) == 3, loss.accumulate()};
}

TrainingLoss trainingLoss(const Plan &plan) {
  for (const Program &program : plan.programs())
    for (const Step &step : program.steps()) {
      const LinearCrossEntropy &loss = step.linear_cross_entropy();
      if (isTrainingLoss(step))
        return {loss.tokens(), loss.vocabulary(), gpuRows(loss)};
    }
  return {};
}

void setLossRows(Plan &plan, uint64_t rows) {
  constexpr int kLogits = 4; // the operand
  for (Program &program : *plan.mutable_programs())
    for (Step &step : *program.mutable_steps()) {
      if (!step.has_linear_cross_entropy())
        continue;
      LinearCrossEntropy &loss = *step.mutable_linear_cross_entropy();
      SizeForm &size = *plan.mutable_slots(int(step.operands(kLogits).slot()))->mutable_size();
      loss.set_gpu_chunk(evenChunk(loss.tokens(), std::min(rows, loss.tokens())));
      size.set_gpu_elements(gpuLinearCrossEntropyScratchBytes(loss.gpu_chunk(), loss.tokens(), loss.vocabulary(),
                                                              dataTypeBytes(loss.type())) /
                            size.element_bytes());
    }
}

const StepDefinition &defineLinearCrossEntropy() {
  static const LinearCrossEntropyDefinition definition;
  return definition;
}

} // namespace ztc
