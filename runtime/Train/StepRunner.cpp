#include "runtime/Train/StepRunner.h"
#include "runtime/Format/PlanValidator.h"
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace ztc {

StatusOr<StepRunner> StepRunner::create(const plan::Plan &plan, Executor &executor) {
  const plan::Bindings &b = plan.bindings();
  const std::pair<const char *, uint32_t> needed[]{{"tokens", b.tokens()},
                                                   {"targets", b.targets()},
                                                   {"step_parameters", b.step_parameters()},
                                                   {"loss", b.loss()},
                                                   {"gradient_norm", b.gradient_norm()},
                                                   {"finite", b.finite()}};
  for (const auto &[name, slot] : needed)
    if (slot == kAbsent || slot >= uint32_t(plan.slots_size()))
      return invalidArgument(fmt::format("the plan has no slot for {}: it cannot be trained", name));
  for (const char *program : {"microstep", "update"})
    if (!executor.hasProgram(program))
      return invalidArgument(fmt::format("the plan has no program {}: it cannot be trained", program));
  return StepRunner(plan, executor);
}

Status StepRunner::feed(const GlobalBatch &batch, uint64_t microBatch) {
  auto tokens = std::as_bytes(batch.tokens(microBatch));
  auto targets = std::as_bytes(batch.targets(microBatch));
  ZTC_RETURN_IF_ERROR(executor_->writeSlot(plan_->bindings().tokens(), 0, tokens.data(), tokens.size()));
  return executor_->writeSlot(plan_->bindings().targets(), 0, targets.data(), targets.size());
}

StatusOr<float> StepRunner::readScalar(uint32_t slot) const {
  float value = 0;
  ZTC_RETURN_IF_ERROR(executor_->readSlot(slot, 0, &value, sizeof value));
  return value;
}

StatusOr<bool> StepRunner::readFinite() const {
  uint32_t slot = plan_->bindings().finite();
  if (plan_->slots(int(slot)).type() == plan::F32) {
    ZTC_ASSIGN_OR_RETURN(float value, readScalar(slot));
    return value != 0;
  }
  uint8_t value = 0; // I1 takes one byte
  ZTC_RETURN_IF_ERROR(executor_->readSlot(slot, 0, &value, sizeof value));
  return value != 0;
}

StatusOr<StepResult> StepRunner::train(const GlobalBatch &batch, const StepParameterArray &parameters,
                                       const std::function<Status()> &afterGradients) {
  ZTC_RETURN_IF_ERROR(
      executor_->writeSlot(plan_->bindings().step_parameters(), 0, parameters.data(), sizeof(StepParameterArray)));
  for (uint64_t m = 0; m < batch.microBatches(); ++m) {
    ZTC_RETURN_IF_ERROR(feed(batch, m));
    ZTC_RETURN_IF_ERROR(executor_->execute("microstep", uint32_t(m)));
  }
  if (afterGradients)
    ZTC_RETURN_IF_ERROR(afterGradients());
  ZTC_RETURN_IF_ERROR(executor_->execute("update"));
  // Only now: reading waits for the device.
  StepResult result;
  ZTC_ASSIGN_OR_RETURN(result.lossSum, readScalar(plan_->bindings().loss()));
  ZTC_ASSIGN_OR_RETURN(result.gradientNorm, readScalar(plan_->bindings().gradient_norm()));
  ZTC_ASSIGN_OR_RETURN(bool finite, readFinite());
  result.finite = finite && std::isfinite(result.gradientNorm);
  return result;
}

StatusOr<double> StepRunner::evaluate(const GlobalBatch &batch) {
  if (plan_->bindings().eval_loss() == kAbsent || !canEvaluate())
    return invalidArgument("the plan has no program eval: compile it again to use --eval-data");
  ZTC_RETURN_IF_ERROR(feed(batch, 0));
  ZTC_RETURN_IF_ERROR(executor_->execute("eval"));
  ZTC_ASSIGN_OR_RETURN(float loss, readScalar(plan_->bindings().eval_loss()));
  return double(loss);
}

} // namespace ztc
