// One optimizer step, one evaluation batch: the order in which the programs of a plan are fed and run.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Train/GlobalBatch.h"
#include "runtime/Train/Schedule.h"
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ztc {

/// What one optimizer step gave on this rank.
struct StepResult {
  float lossSum = 0;      ///< over this rank's counted targets
  float gradientNorm = 0; ///< of all ranks together, before clipping, unscaled
  bool finite = true;     ///< the norm is; where updates are in the backward, the loss too
  bool updated = true;    ///< it was below its limit; otherwise @update wrote nothing
};

class StepRunner {
public:
  /// All must outlive the runner. InvalidArgument where the plan lacks a binding or program that training needs.
  static StatusOr<StepRunner> create(const plan::Plan &plan, Executor &executor);

  /// A step is begin(), update(), result(). Where the device is asynchronous, none of the first two waits for it, and
  /// the next step may begin before result() is asked for: result() waits for this update alone.
  ///
  /// Feeds and executes the micro-steps. The global batch has weights where the plan takes some. It counts at least one
  /// target; it is free when this returns. May be called again with other parameters: the gradients are then those of
  /// the last call.
  Status begin(const GlobalBatch &batch, const StepParameterArray &parameters);
  /// Executes the update with the parameters of begin(), unless the micro-step has (UpdateTime.h).
  Status update();
  /// Of the last update.
  StatusOr<StepResult> result() const;
  /// Of products in fp8 with delayed scaling: the absolute maximum of each scaled matrix in the last step, 0 where it
  /// is not known, under all of its names (ScaledMatrix in plan.proto); empty where the plan has no such scales. They
  /// are the same on all ranks.
  StatusOr<std::map<std::string, float>> fp8Maxima() const;
  /// Goes on from those of another runner, of this plan or of another one: a matrix has the largest of those that
  /// stand under its names, of which none may be missing. How many matrices are then known.
  StatusOr<uint64_t> setFp8Maxima(const std::map<std::string, float> &maxima);
  /// Scaled matrices of the plan.
  uint64_t fp8Matrices() const { return uint64_t(plan_->scaled_matrices_size()); }
  /// True until all fp8 maxima are known: findFp8Maxima() then comes before the first step.
  bool needsFp8Maxima() const { return needsFp8Maxima_; }
  /// Computes the step that begin() would, so often that the scale of each matrix whose maximum is not known is that
  /// of its own numbers, and updates nothing else. What a matrix's numbers are depends on the scales of those that lead
  /// to it: see kFp8Rounds.
  Status findFp8Maxima(const GlobalBatch &batch, StepParameterArray parameters);
  /// The summed loss of each row of a batch of one micro-batch; one of all rows where the plan adds them up. They are
  /// valid until the next call.
  StatusOr<std::span<const float>> evaluateLosses(const GlobalBatch &batch);
  /// Of all rows.
  StatusOr<double> evaluate(const GlobalBatch &batch);
  bool canEvaluate() const { return executor_->hasProgram("eval"); }
  bool isAsynchronous() const { return executor_->isAsynchronous(); }

private:
  StepRunner(const plan::Plan &plan, Executor &executor, std::unique_ptr<ReadBack> results)
      : plan_(&plan), executor_(&executor), results_(std::move(results)) {}
  Status feed(const GlobalBatch &batch, uint64_t microBatch);
  StatusOr<std::vector<float>> readFp8Maxima() const;
  Status writeFp8Maxima(std::span<const float> maxima);

  const plan::Plan *plan_;
  Executor *executor_;
  std::unique_ptr<ReadBack> results_; ///< of the last update
  std::vector<float> losses_;         ///< of the last evaluation
  std::vector<float> knownFp8Maxima_; ///< those that setFp8Maxima() was given; 0: not known
  bool needsFp8Maxima_ = false;
};

} // namespace ztc
