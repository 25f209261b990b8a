// The search for what to compute again so that a step fits into a budget.
#pragma once
#include "compiler/Analysis/FirstThatFits.h"
#include "compiler/Analysis/MeasureStep.h"
#include "passes/Recompute/Candidates.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace ztc {

/// What a search found.
struct RecomputeDecision {
  bool fits = false;      ///< the peak is within the budget
  RecomputeChoice choice; ///< where nothing fits: the one with the smallest peak
  StepMeasure kept;       ///< with nothing computed again
  StepMeasure chosen;     ///< with `choice`
  unsigned measured = 0;  ///< how many choices were measured
  /// Per group of the choice, in order: how many of how many blocks, and what they would have kept.
  struct Share {
    RecomputeGroup group;
    unsigned blocks, ofBlocks;
    uint64_t bytes;
  };
  llvm::SmallVector<Share> shares;
};

/// An element with its price by the cost model.
struct PricedElement {
  int64_t layer;
  RecomputeGroup group;
  uint64_t keptBytes;
  double seconds;
};

/// What `module`, as phase `shard` leaves it, can compute again, priced op by op before fusion. Fails after a
/// diagnostic where it has no micro-step that computes a loss.
mlir::FailureOr<llvm::SmallVector<PricedElement>> recomputeElements(mlir::ModuleOp module, const MachineRates &rates);

using MeasureChoice = llvm::function_ref<mlir::FailureOr<StepMeasure>(const RecomputeChoice &)>;
using FitsBudget = llvm::function_ref<mlir::FailureOr<BudgetFit>(const RecomputeChoice &)>;

/// The cheapest choice found whose peak is at most `budgetBytes`. Groups are taken in their order, each block by block
/// from the first on: what early blocks keep lives longest. How many blocks is searched (FirstThatFits.h), on the
/// measured peak of the whole step, so that few choices are measured however many blocks there are. Then the last step
/// is tried again with something cheaper, and what turns out to be unneeded is dropped: without any one element the
/// peak would exceed the budget. A smaller budget never gives a higher peak. `fits`, which may be null, says whether a
/// choice's measured peak is at most the budget; it is asked in place of `measure` where no more is needed. Fails where
/// one of them does.
mlir::FailureOr<RecomputeDecision> chooseRecomputed(llvm::ArrayRef<PricedElement> elements, uint64_t budgetBytes,
                                                    MeasureChoice measure, FitsBudget fits = {});

} // namespace ztc
