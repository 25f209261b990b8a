// What a choice of recomputation costs: the peak to the byte and the time of the whole, scheduled step.
#pragma once
#include "compiler/Analysis/CostModel.h"
#include "compiler/Analysis/FirstThatFits.h"
#include "compiler/Analysis/RecomputeChoice.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <functional>
#include <map>
#include <tuple>

namespace ztc {

/// One rank's optimizer step.
struct StepMeasure {
  uint64_t peakBytes = 0; ///< the arena
  double seconds = 0;     ///< by the cost model
  uint64_t hostBytes = 0; ///< what lies below the device: in the host's memory
  uint64_t diskBytes = 0; ///< and in a file
};

/// The same, and what makes up the time.
struct StepTotals : StepMeasure {
  uint64_t movedBytes = 0; ///< read and written by what computes: each operand once (runtime/Memory/StepBytes.h)
  uint64_t sentBytes = 0;  ///< parameters and gradients to other ranks
  uint64_t flops = 0;
  uint64_t launches = 0; ///< of kernels and library calls
};

/// A plan without machine code and without the bytes of constants, for measuring.
struct ProbedPlan {
  plan::Plan plan;
  int64_t againFlops = 0; ///< of what is computed again in one micro-step
};

/// From a module as phase `shard` leaves it to a plan without machine code: recompute, fuse, schedule, assign. The
/// driver fills it; what it is given stays as it is.
using StepPipeline = std::function<mlir::FailureOr<ProbedPlan>(mlir::ModuleOp, const RecomputeChoice &)>;

/// The plan's measure on `shape.world` ranks with `shape.accumulate` micro-steps.
StatusOr<StepMeasure> measurePlan(const plan::Plan &plan, const PlanShape &shape, const MachineRates &rates);

/// The same with what makes it up, by the rates of what the shape stands for.
StatusOr<StepTotals> totalPlan(const plan::Plan &plan, const PlanShape &shape);

/// Measures steps of one module, which stays as it is. A plan knows no number of ranks: one per choice is enough.
class StepProbe {
public:
  StepProbe(mlir::ModuleOp module, StepPipeline pipeline) : module(module), pipeline(std::move(pipeline)) {}

  /// Fails, after a diagnostic, where a pass or the planner does. Whoever asks of one shape has the same rates each
  /// time.
  mlir::FailureOr<StepMeasure> measure(const RecomputeChoice &choice, const PlanShape &shape,
                                       const MachineRates &rates);
  /// Whether no choice has a peak of at most `peakBytes`, for the reason that what lies on the device all the time,
  /// whatever is computed again, has more.
  mlir::FailureOr<bool> isHopeless(const PlanShape &shape, uint64_t peakBytes);
  /// The seconds of measure(), which take no layout.
  mlir::FailureOr<double> seconds(const RecomputeChoice &choice, const PlanShape &shape, const MachineRates &rates);
  /// Whether the peak of measure() is at most `peakBytes`, which takes less than to know it.
  mlir::FailureOr<BudgetFit> fits(const RecomputeChoice &choice, const PlanShape &shape, uint64_t peakBytes);
  /// The plan of a choice, without machine code; valid as long as the probe.
  mlir::FailureOr<const ProbedPlan *> plan(const RecomputeChoice &choice);

private:
  mlir::ModuleOp module;
  StepPipeline pipeline;
  /// A choice's text, and ranks, micro-steps and threads.
  using Place = std::tuple<std::string, uint64_t, uint64_t, uint64_t>;
  static Place placeOf(const RecomputeChoice &choice, const PlanShape &shape) {
    return {choice.text(), shape.world, shape.accumulate, shape.threads};
  }
  std::map<std::string, ProbedPlan> plans;                 ///< by the choice's text
  std::map<Place, StepMeasure> measures;                   ///< what was asked before: a layout takes as long as a plan
  std::map<std::pair<Place, uint64_t>, BudgetFit> fitting; ///< the same, by the budget too
};

} // namespace ztc
