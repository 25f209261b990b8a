// What the plans that a search measures have in common: it is done once.
#pragma once
#include "compiler/Analysis/MeasureStep.h"
#include "compiler/Driver/Plugin.h"
#include <list>

namespace ztc::driver {

/// The steps of one module, as phase `shard` leaves it, that were made for choices of recomputation. Functions that no
/// choice changes go through phases `fuse` and `schedule` once: passes of these phases look at one function at a time.
/// What the last choices have led to is kept for plans that differ from one another only in what lies below the device.
class ProbeSteps {
public:
  /// Runs the passes of phases on a module, in order; of phase `plan` the conversion alone.
  using RunPhases = llvm::function_ref<llvm::LogicalResult(mlir::ModuleOp, llvm::ArrayRef<Phase>)>;

  /// A step in the form of a plan, before anything is moved below the device.
  struct Step {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    int64_t againFlops = 0; ///< of what is computed again in one micro-step
  };

  /// `isWhole`: passes that are not ztc's own take part, which may look at all functions at once.
  explicit ProbeSteps(bool isWhole) : isWhole(isWhole) {}

  /// The step of `sharded` by the choice of this text, which `run` has been told: for the caller to change. `isKept`:
  /// it will be asked for again. All calls are about equal modules. Fails where a pass does.
  llvm::FailureOr<Step> step(mlir::ModuleOp sharded, const std::string &choice, bool isKept, RunPhases run);

private:
  llvm::LogicalResult prepare(mlir::ModuleOp sharded, RunPhases run);
  /// Writes the functions that no choice changes into `step`, where they stood.
  void addUnchanged(mlir::ModuleOp step);
  llvm::FailureOr<Step> make(RunPhases run);

  const bool isWhole;
  mlir::OwningOpRef<mlir::ModuleOp> changed;    ///< the module with the functions that a choice changes
  mlir::OwningOpRef<mlir::ModuleOp> unchanged;  ///< with the others, after phase `schedule`
  std::vector<std::string> order;               ///< of all functions
  std::list<std::pair<std::string, Step>> kept; ///< by choice, the last one first
};

} // namespace ztc::driver
