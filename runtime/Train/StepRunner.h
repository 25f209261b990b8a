// One optimizer step, one evaluation batch: the order in which the programs of a plan are fed and run.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Train/GlobalBatch.h"
#include "runtime/Train/Schedule.h"
#include <cstdint>
#include <functional>

namespace ztc {

/// What one optimizer step gave on this rank.
struct StepResult {
  float lossSum = 0;      ///< over this rank's counted targets
  float gradientNorm = 0; ///< of all ranks together, before clipping, unscaled
  bool finite = true;     ///< the norm is finite; otherwise @update wrote nothing
};

class StepRunner {
public:
  /// All must outlive the runner. InvalidArgument where the plan lacks a binding or program that training needs.
  static StatusOr<StepRunner> create(const plan::Plan &plan, Executor &executor);

  /// Runs the micro-steps and the update. The global batch counts at least one target. `afterGradients`, where set, is
  /// called when all gradients are there and nothing is updated yet.
  StatusOr<StepResult> train(const GlobalBatch &batch, const StepParameterArray &parameters,
                             const std::function<Status()> &afterGradients = nullptr);
  /// The summed loss of a batch of one micro-batch.
  StatusOr<double> evaluate(const GlobalBatch &batch);
  bool canEvaluate() const { return executor_->hasProgram("eval"); }

private:
  StepRunner(const plan::Plan &plan, Executor &executor) : plan_(&plan), executor_(&executor) {}
  Status feed(const GlobalBatch &batch, uint64_t microBatch);
  StatusOr<float> readScalar(uint32_t slot) const;
  StatusOr<bool> readFinite() const;

  const plan::Plan *plan_;
  Executor *executor_;
};

} // namespace ztc
