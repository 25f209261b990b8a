// `ztc compile --explain-passes`: what each phase, and each pass of a plugin, changes in a step's memory, traffic,
// arithmetic and time.
#pragma once
#include "compiler/Analysis/MeasureStep.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassInstrumentation.h"
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ztc::driver {

/// Follows the phases of one session. What a step would take is found by finishing a copy of it, without machine code,
/// by ztc's own passes as they are by default: what a row says comes from that phase's options, or that pass, alone.
/// The rows add up to the plan that is written.
class PassExplainer {
public:
  /// Makes a plan of a copy of the step, from phase `next` on; what is wrong with it goes to diagnostics.
  using Finish = std::function<mlir::FailureOr<plan::Plan>(mlir::ModuleOp copy, Phase next)>;
  PassExplainer(const PhaseHooks &hooks, Finish finish, PlanShape shape)
      : hooks(hooks), finish(std::move(finish)), shape(shape) {}

  /// Before the passes of a phase, hooks included, and after them.
  void beginPhase(Phase phase, mlir::ModuleOp module);
  void endPhase(Phase phase, mlir::ModuleOp module);
  /// To be added to the pass manager of `phase`.
  std::unique_ptr<mlir::PassInstrumentation> instrumentation();

  /// A table with a row for each phase that was measured and each pass of a plugin.
  void print(llvm::raw_ostream &out) const;

private:
  class Instrumentation;
  /// The step at one place, until it is measured.
  struct State {
    std::string what;
    bool isHook;
    bool inPhase; ///< the passes of the phase are still to come
    mlir::OwningOpRef<mlir::ModuleOp> module;
  };
  struct Row {
    std::string what;
    bool isHook = false;
    std::optional<StepTotals> totals;
    std::string gap; ///< why there are none
  };
  Row measure(std::string what, bool isHook, mlir::ModuleOp copy, Phase next);

  const PhaseHooks &hooks;
  Finish finish;
  PlanShape shape;
  std::vector<State> states; ///< of the phase that runs
  std::vector<Row> rows;     ///< the first one is where the session began
};

} // namespace ztc::driver
